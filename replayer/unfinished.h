// The schedule of what a job has not finished: the calls whose operations are not done everywhere,
// the calls that have not returned, the waits between them, and what became of the processes. All
// that was done before is left out, apart from communicators being made and connected.
//
// Source of what is unfinished: the wait model's own account (analyzer/graph/execution_graph.h) at
// the last round. An operation that one member has done and another has not stays at both.
#ifndef GORDIAN_REPLAYER_UNFINISHED_H_
#define GORDIAN_REPLAYER_UNFINISHED_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/graph/execution_graph.h"
#include "analyzer/graph/matcher.h"
#include "analyzer/graph/verdict.h"
#include "replayer/recording.h"
#include "replayer/schedule.h"

namespace gordian::replayer {

struct JobFacts {
  const graph::ExecutionGraph& execution;
  const graph::Matcher& matcher;
  const Recording& recording;     // of the same records, finished
  const graph::Verdict& verdict;  // of the same round
  std::function<std::string(graph::ProcessId, uint64_t)>
      site;                                     // "train.cc:88 step()"; may be empty
  std::function<std::string(uint16_t)> symbol;  // of a call id; may be empty
};

struct UnfinishedJob {
  Schedule schedule;  // Origin: only what the facts hold; no settings
  // Why it cannot be replayed, one line each; then the schedule is not to be used.
  std::vector<std::string> refused;
};

UnfinishedJob ScheduleUnfinished(const JobFacts& facts);

struct NeededCalls;
// Of these calls, whatever became of the job: all have returned, and what became of the processes
// is left out. All communicators in it are connected beforehand.
UnfinishedJob ScheduleCalls(const JobFacts& facts, const NeededCalls& calls);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_UNFINISHED_H_
