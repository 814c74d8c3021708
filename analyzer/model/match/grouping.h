// Members of a communicator that launch its collectives in different groups. NCCL carries out the
// collectives that a group has on one communicator in one kernel, which does not meet the kernels
// of a member that has called them singly: on H200s (NCCL 2.28.9) two all-reduces then hang at
// every size that was tried, or end with wrong data at one rank.
//
// Source: measured (docs/emulator-truth.md, group_of_two_against_calls); NCCL's documentation does
// not say it.
#ifndef GORDIAN_ANALYZER_MODEL_MATCH_GROUPING_H_
#define GORDIAN_ANALYZER_MODEL_MATCH_GROUPING_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"

namespace gordian::model {

struct GroupingCamp {
  std::vector<uint64_t> together;  // numbers, on the communicator, of the collectives in the launch
  std::vector<int> members;        // ranks of the communicator
};

// The members of a collective that hold it in a launch of their own, unfinished, of which all
// records are there: camp by camp, the largest first. Fewer than two camps: no member is known to
// differ. Pure; linear in the launch's collectives times the members.
std::vector<GroupingCamp> GroupingCamps(const ExecutionGraph&, const Matcher&,
                                        const PartRef& collective);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_MATCH_GROUPING_H_
