// The formats that a recorded job can be written in: one file each, and a row of the table here.
#ifndef GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_
#define GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/exporters/operation_log.h"
#include "analyzer/session/analysis.h"
#include "common/status.h"

namespace gordian::exporters {

// What a format writes.
struct Job {
  const OperationLog& log;
  const analyzer::AnalysisResult& result;  // the verdict, and the trace's header

  // A monotonic time of the trace, on the wall clock; ns.
  uint64_t RealTime(uint64_t mono_ns) const;
};

// File names, without a folder, and their bytes; or one text without a name.
struct Exported {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;  // what the format cannot hold of this job; one line each
};

struct Format {
  std::string_view name;  // of -f
  std::string_view what;  // for --help
  bool folder;            // it writes several files
  size_t keep;            // operations of a rank, unless the person says; 0: all
  bool wait_for_graph;    // it needs OperationLog::wait_for_dot
  StatusOr<Exported> (*write)(const Job& job);
};

std::span<const Format> Formats();
const Format* FindFormat(std::string_view name);  // null: there is none

// Each in a file of its own.
StatusOr<Exported> WriteFlightRecorder(const Job& job);
StatusOr<Exported> WriteDot(const Job& job);
StatusOr<Exported> WriteChromeTrace(const Job& job);
StatusOr<Exported> WriteJsonLines(const Job& job);

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_FORMATS_H_
