// Reads NCCL Inspector's JSON: each line is an operation that a rank has completed on a
// communicator.
//
// Facts of the format (v4.0 to v4.2, the latter of NCCL 2.30 and later): NCCL's
// plugins/profiler/inspector, before 2.29 ext-profiler/inspector. A line has a header
// (communicator, rank), metadata and one completed operation, or counts of what the plugin dropped
// (since v4.1). A later version is read as far as its lines have these fields, and what else it has
// is named. The plugin writes no operation that hangs and, by default, no message below 8 KiB; it
// numbers each function separately.
#ifndef GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_
#define GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "common/status.h"

namespace gordian::importers {

// Takes the files of one job in any order. Memory: a few words for each completed collective that
// some member has not completed, at most kMostHeld of them; drops and counts the oldest.
class InspectorJob {
 public:
  static constexpr size_t kMostHeld = 1u << 20;

  // Takes the lines of one file. Ignores a truncated last line: the plugin was writing it. Errors
  // name the line.
  Status Add(std::string_view bytes);

  // Reports a mismatch when members completed one operation with different sizes; claims no more,
  // since an operation that hangs leaves no line. Lists what each rank completed last, without
  // blame.
  model::Verdict Decide() const;

  size_t records() const { return records_; }

 private:
  struct Communicator {
    std::string name;
    int size = 0;
    std::map<int, std::map<std::string, uint64_t>>
        last;  // by rank and function: the highest completed number
  };
  struct Sizes {
    std::map<int, uint64_t> by_rank;
  };

  Status AddLine(std::string_view line);

  std::map<std::string, Communicator> comms_;  // by id
  std::map<std::tuple<std::string, std::string, uint64_t>, Sizes>
      open_;  // not completed by all yet: communicator, function, number
  struct Different {
    std::string comm, function;
    uint64_t sequence = 0;
    std::map<int, uint64_t> by_rank;
  };
  std::vector<Different> different_;
  size_t records_ = 0, let_go_ = 0;
  uint64_t dropped_ = 0;           // by the plugin
  size_t cut_ = 0;                 // files with a truncated last line
  std::set<std::string> unknown_;  // kinds of lines, and versions of the format
};

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_
