// Reads the times of collectives from traces of PyTorch's profiler, one for each rank.
//
// NCCL's kernel runs from when its rank joins until all members are done. The last member to join
// waits for no other, so the least of the members' times is that of the operation. It is known
// where every member's trace holds its kernel; the operations of a batch share one, and have none.
#ifndef GORDIAN_CLI_PLAN_TRACED_COLLECTIVES_H_
#define GORDIAN_CLI_PLAN_TRACED_COLLECTIVES_H_

#include <string>
#include <vector>

#include "analyzer/importers/rank_trace.h"
#include "common/status.h"
#include "planner/collective_report.h"

namespace gordian::cli {

struct TracedCollectives {
  std::vector<std::string> comms;  // names of process groups, by number
  std::vector<planner::TimedCollective> collectives;
  std::string note;  // one line on what is left out; empty: nothing
};

TracedCollectives TimesOf(const std::vector<importers::RankTrace>& traces);

// Of a file or a folder of such traces.
StatusOr<TracedCollectives> ReadTracedCollectives(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_TRACED_COLLECTIVES_H_
