// NCCL Inspector's JSON: what each rank has completed on each communicator, a line each.
//
// Facts of the format (v4.0 to v4.2): NCCL's plugins/profiler/inspector. A line has a header
// (communicator, rank), metadata and one completed operation, or counts of what the plugin dropped.
// Operations that hang are not in it at all, nor are, by default, messages below 8 KiB; sequence
// numbers count each function by itself.
#ifndef GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_
#define GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/graph/verdict.h"
#include "common/status.h"

namespace gordian::importers {

// Fed with the files of one job, in any order. Memory: a few words for each completed collective
// that has not been seen of all members, at most kMostHeld of them; the oldest are let go of and
// counted.
class InspectorJob {
 public:
  static constexpr size_t kMostHeld = 1u << 20;

  // The lines of one file. Its last line may be cut off: the plugin was writing. Errors name the
  // line.
  Status Add(std::string_view bytes);

  // Members that completed one operation with different sizes are a mismatch; more is not claimed,
  // since what hangs has left no line. What ranks have completed last is told, and blames nobody.
  graph::Verdict Decide() const;

  size_t records() const { return records_; }

 private:
  struct Communicator {
    std::string name;
    int size = 0;
    std::map<int, std::map<std::string, uint64_t>>
        last;  // by rank and function: the highest number completed
  };
  struct Sizes {
    std::map<int, uint64_t> by_rank;
  };

  Status AddLine(std::string_view line);

  std::map<std::string, Communicator> comms_;  // by id
  std::map<std::tuple<std::string, std::string, uint64_t>, Sizes>
      open_;  // not seen of all: communicator, function, number
  struct Different {
    std::string comm, function;
    uint64_t sequence = 0;
    std::map<int, uint64_t> by_rank;
  };
  std::vector<Different> different_;
  size_t records_ = 0, let_go_ = 0;
  uint64_t dropped_ = 0;  // by the plugin
  size_t cut_ = 0;        // files whose last line is
};

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_INSPECTOR_H_
