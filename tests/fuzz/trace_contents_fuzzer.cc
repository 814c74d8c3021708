// Any bytes, as what is packed in a trace, a spool and a batch from the network. Packs them itself,
// so that a fuzzer need not.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "analyzer/session/analysis.h"
#include "common/framed_file.h"
#include "common/packed_batch.h"
#include "common/trace_file.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

// A trace of the header chunk alone, as the writer makes it.
const std::string& Beginning() {
  static const std::string kBeginning = [] {
    char path[] = "/tmp/gordian-header-XXXXXX";
    const int fd = mkstemp(path);
    StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
    if (!writer.ok()) {
      std::fprintf(stderr, "%s\n", writer.status().message().c_str());
      std::abort();
    }
    std::string text((*writer)->bytes(), '\0');
    if (ReadAt(fd, 0, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
    close(fd);
    unlink(path);
    return text;
  }();
  return kBeginning;
}

// Returns whether it is a trace.
bool AsChunk(const std::string& contents) {
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  uint64_t offset = Beginning().size();
  if (!WriteAllAt(fd, path, 0, Beginning().data(), offset).ok() ||
      !WriteFrame(fd, path, &offset, contents).ok()) {
    std::abort();
  }
  const StatusOr<analyzer::AnalysisResult> result =
      analyzer::AnalyzeTrace(path, {.want_status = true});
  if (result.ok() ? result->verdict.main.summary.empty() || result->status_json.empty()
                  : result.status().message().empty()) {
    std::abort();
  }
  close(fd);
  return result.ok();
}

void AsBatch(const std::string& contents) {
  v1::ToAnalyzer message;
  std::string why;
  if (!message.ParseFromString(contents)) return;
  if (!Unpack(
          1 << 20, [](std::string_view, std::string*) { return true; }, message.mutable_batch(),
          &why) &&
      why.empty()) {
    std::abort();
  }
}

}  // namespace

void FuzzTraceContents(const uint8_t* data, size_t bytes) {
  static const bool kReads = AsChunk("");
  if (!kReads) std::abort();  // else no input would get anywhere
  const std::string contents(reinterpret_cast<const char*>(data), bytes);
  AsChunk(contents);
  AsBatch(contents);
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzTraceContents(data, bytes);
  return 0;
}
#endif
