// What one rank called, in its own words: a trace of PyTorch's profiler (Kineto), of its
// ExecutionTraceObserver or of Chakra.
#ifndef GORDIAN_ANALYZER_IMPORTERS_RANK_TRACE_H_
#define GORDIAN_ANALYZER_IMPORTERS_RANK_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "analyzer/importers/flight_recorder.h"

namespace gordian::importers {

enum class TraceFormat : uint8_t { kKineto, kExecution, kChakra };

struct RankTrace {
  TraceFormat format = TraceFormat::kKineto;
  // Its calls of collectives; `completed` are those whose end the trace holds. Without `numbered`
  // an entry's sequence is its place among those of its group. No sends and receives.
  FlightDump dump;
  bool ranked = false;  // the trace itself names its rank
  int world = 0;        // ranks of the job; 0: the trace does not say
  // All entries carry the number by which every member of their group knows them.
  bool numbered = true;
  // Two operations may carry one number: PyTorch numbers those of a batch like the next one. A
  // batch of sends and receives takes a number of the group's collectives, too, at the ranks that
  // make it.
  bool batches_share_numbers = false;
  std::set<std::string> transfer_groups;  // keys of groups with recorded sends and receives
  size_t transfers = 0;                   // sends and receives
  size_t without_metadata = 0;            // recorded calls that name no operation or no group
  bool cut = false;                       // its list ends between two calls, and may lack the last
  uint64_t bytes = 0;                     // memory that all this takes, roughly
};

// What the entries, groups and texts of all traces of a job may take together.
inline constexpr uint64_t kMostRankTraceBytes = 512ull << 20;
// The longest name that a trace may give an operation, a type or a group.
inline constexpr size_t kMostTraceName = 256;
inline constexpr int kMostTraceRanks = 131'072;

// The name that Flight Recorder dumps have for what PyTorch's profiler calls a collective.
std::string OperationOfProfiler(const std::string& collective);
// Tells a group from others. Short, unlike FlightGroup::Key: each entry has a copy, and a group may
// have thousands of ranks.
std::string ShortKey(const FlightGroup& group);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_RANK_TRACE_H_
