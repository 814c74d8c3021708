// Makes a schedule of the unfinished part of a job: calls whose operations are not done everywhere,
// calls that have not returned, the waits between them, and how the processes ended. Leaves out
// everything done before, except that it makes and connects communicators.
//
// Source: the wait model's account of unfinished work (analyzer/model/facts/execution_graph.h) at
// the last round. An operation that one member has completed and another has not stays at both.
#ifndef GORDIAN_REPLAYER_RECORD_UNFINISHED_H_
#define GORDIAN_REPLAYER_RECORD_UNFINISHED_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/verdict.h"
#include "replayer/record/recording.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct SiteText {
  std::string text;  // "train.cc:88 step()"; may be empty
  std::string file;  // as the debug information or Python gives it; may be empty
  int line = 0;
};

struct JobFacts {
  const model::ExecutionGraph& execution;
  const model::Matcher& matcher;
  const Recording& recording;     // of the same records, after Finish()
  const model::Verdict& verdict;  // of the same round
  std::function<SiteText(model::ProcessId, uint64_t)> site;
  std::function<std::string(uint16_t)> symbol;  // name of a call id; may be empty
  uint64_t operations = 0;                      // of NCCL, called; captured ones count once
};

struct UnfinishedJob {
  Schedule schedule;  // Origin: only what the facts hold, without settings
  // Why it cannot be replayed, one line each; the schedule is then unusable.
  std::vector<std::string> refused;
  // Where the schedule comes from: its ranks' processes, their threads, and each call's recorded begin and
  // end (0: it has not returned).
  std::vector<model::ProcessId> processes;
  std::vector<std::vector<model::ThreadId>> threads;
  std::unordered_map<OpId, std::pair<uint64_t, uint64_t>> orders;
};

UnfinishedJob ScheduleUnfinished(const JobFacts& facts);

struct NeededCalls;
// A schedule of these calls, all of which have returned, without the processes' ends. Connects all
// its communicators beforehand.
UnfinishedJob ScheduleCalls(const JobFacts& facts, const NeededCalls& calls);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_UNFINISHED_H_
