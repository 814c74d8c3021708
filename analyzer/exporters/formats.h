// The formats that a recorded job can be written in: one file each, and a row of the table here.
#ifndef GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_
#define GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/exporters/operation_log.h"
#include "analyzer/exporters/scratch_file.h"
#include "analyzer/session/analysis.h"
#include "common/status.h"

namespace gordian::exporters {

// For formats that are a graph of waits.
struct Options {
  bool witness = false;  // of a graph of waits only the shortest cycle
  int rank = -1;         // of a graph of waits only what is near this rank; -1: all
};

// What a format writes.
struct Job {
  const OperationLog& log;
  const analyzer::AnalysisResult& result;  // the verdict, and the trace's header
  Options options;

  // A monotonic time of the trace, on the wall clock; ns.
  uint64_t RealTime(uint64_t mono_ns) const;
  // The rank of a communicator's member.
  int RankOf(int group, int member) const;
};

// File names, without a folder, and their bytes; or one text without a name.
struct Exported {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;  // what the format cannot hold of this job; one line each
};

// Writes what is too much for memory: what comes while the trace is read goes into a scratch file.
class StreamedFormat : public OperationSink {
 public:
  // After AtEnd: the notes, and of a format of one file its beginning.
  virtual StatusOr<Exported> Finish(const Job& job) = 0;
  // After that, of a format of one file: writes the rest to a descriptor, from where that stands.
  virtual Status WriteRest(const Job&, int) { return Status::Ok(); }
  // Or of one of several files: hands each over once it is made.
  using TakeFile = std::function<Status(const std::string& name, const std::string& bytes)>;
  virtual Status WriteFiles(const Job&, const TakeFile&) { return Status::Ok(); }
};

struct Format {
  std::string_view name;  // of -f
  std::string_view what;  // for --help
  bool folder;            // it writes several files
  size_t keep;            // operations of a rank, unless the person says; 0: all
  Wants wants;
  StatusOr<Exported> (*write)(const Job& job);  // null: it is streamed
  // keep: operations of a rank, and other calls of a thread, as of OperationLog; 0: all.
  std::unique_ptr<StreamedFormat> (*stream)(ScratchFile* scratch, size_t keep) = nullptr;
  bool binary = false;  // not for a terminal
};

std::span<const Format> Formats();
const Format* FindFormat(std::string_view name);  // null: there is none

// Each in a file of its own.
StatusOr<Exported> WriteFlightRecorder(const Job& job);
StatusOr<Exported> WriteDot(const Job& job);
StatusOr<Exported> WriteGraphMl(const Job& job);
StatusOr<Exported> WriteSarif(const Job& job);
std::unique_ptr<StreamedFormat> StreamPerfetto(ScratchFile* scratch, size_t keep);
std::unique_ptr<StreamedFormat> StreamChromeTrace(ScratchFile* scratch, size_t keep);
std::unique_ptr<StreamedFormat> StreamOtlpTraces(ScratchFile* scratch, size_t keep);
std::unique_ptr<StreamedFormat> StreamJsonLines(ScratchFile* scratch, size_t keep);
std::unique_ptr<StreamedFormat> StreamCsv(ScratchFile* scratch, size_t keep);
std::unique_ptr<StreamedFormat> StreamChakra(ScratchFile* scratch, size_t keep);

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_
