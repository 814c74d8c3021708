#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/record_block.h"
#include "common/trace_file.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {

void FuzzTraceReader(const uint8_t* data, size_t bytes) {
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, bytes) != static_cast<ssize_t>(bytes)) {
    std::perror("memfd");
    std::abort();
  }
  StatusOr<std::unique_ptr<TraceReader>> reader =
      TraceReader::Open("/proc/self/fd/" + std::to_string(fd));
  if (reader.ok()) {
    uint64_t chunks = 0, events = 0;
    while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
      ++chunks;
      events += static_cast<uint64_t>(chunk->events_size());
      for (const v1::Event& event : chunk->events()) {
        // Records come from outside: whole ones of this version are handed out, and no others.
        size_t records = 0;
        ForEachRecord(event.records(), [&records](const ring::Record&) { ++records; });
        if (event.has_record() ||
            (records != 0 && records * sizeof(ring::Record) != event.records().records().size())) {
          std::abort();
        }
      }
    }
    // A chunk takes bytes, so there cannot be more of them; and the counts must be what was given.
    if (chunks > bytes || chunks != (*reader)->chunks() || events != (*reader)->events() ||
        (*reader)->Describe().empty()) {
      std::abort();
    }
  } else if (reader.status().message().empty()) {
    std::abort();
  }
  close(fd);
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzTraceReader(data, bytes);
  return 0;
}
#endif
