// The job as the wait model sees it: takes facts, returns verdicts.
//
// Pure: no I/O, no clock, no thread. Not thread-safe: the owner serialises calls. Feed each
// thread's records in their order; across threads and processes in any order that is not older than
// the last Decide(). Throws on no input: contradictory facts lower the confidence and appear in
// Evidence::not_visible.
//
// Source: docs/wait-model.md, whose rule numbers (W1 to W18) the implementation cites.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_JOB_MODEL_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_JOB_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "analyzer/model/verdict/job_snapshot.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

struct ModelOptions {
  uint64_t suspect_after_ns = 5'000'000'000;  // a suspicion needs so long without progress or proof
  uint64_t free_counts_after_ns = 250'000'000;       // W4: free-like calls
  uint64_t polling_counts_after_ns = 500'000'000;    // W4: polling loops
  uint64_t polling_counts_after = 100;               // ... and so many polls
  uint64_t first_use_counts_after_ns = 100'000'000;  // W15: inside a call that may be connecting
  uint64_t destroy_counts_after_ns = 1'000'000'000;  // W11: by implementation, not by contract
};

class ExecutionGraph;
class Matcher;

class JobModel {
 public:
  explicit JobModel(ModelOptions options = {});
  ~JobModel();

  void OnProcessStarted(const ProcessInfo&);
  void OnProcessEnded(ProcessId, ExitKind, int exit_value, uint64_t time_ns);
  // A process's own final counts; call it before OnProcessEnded.
  void OnFinalCounts(ProcessId, uint64_t lost_records, uint64_t nccl_calls);
  // What could not be seen of it at its end; call it before OnProcessEnded.
  void OnFinalNotVisible(ProcessId, std::vector<std::string> what);
  // A process's state block at its end; call it before OnProcessEnded.
  void OnFinalBlock(ProcessId, std::shared_ptr<const StateBlock> block);
  // Some last records of this process are lost for good. The records' order shows holes between
  // them, but not missing last ones.
  void OnRecordsMissing(ProcessId);
  // Texts that records refer to: ExecutionGraph.
  void OnCommName(ProcessId, CommId, const std::string& name);
  void OnKeyName(uint64_t key, const std::string& name);
  void OnException(ProcessId, const std::string& text, uint64_t time_ns);
  void OnRecord(const CallRecord&);
  void OnJobEnded(ExitKind, int exit_value, uint64_t time_ns, bool killed_by_gordian);
  // A recovery of the cycle with these operations was begun, was refused by a rank, or is over. What
  // ends of it from the beginning on disproves nothing.
  void OnRecovery(const RecoveryNews&);

  // Takes the state of all processes and decides. Call it once a round, in order. Confirms a
  // deadlock only when two successive rounds show the same stuck set without any progress.
  void OnRound(Round);

  // True when another round soon could confirm what is stuck in the last one.
  bool WantsConfirmation() const;

  // True once the preemptive runtime has operations, by a recovery too: it resolves cycles of them by
  // itself, in tens of milliseconds on busy processors, so two rounds should be further apart.
  bool RuntimeTakesPart() const;

  // True while any operation, communicator call or host wait is unfinished, so that rounds are
  // useful.
  bool HasUnfinished() const;

  // The verdict on everything known now. A confirmed finding never disappears, except the exit of a
  // restarted rank for which no rank waits any more.
  Verdict Current() const;

  // The current state of every rank and communicator.
  JobSnapshot Snapshot() const;
  // JobSnapshot::last_progress_ns, without the rest.
  uint64_t LastProgress() const;

  // Everything unfinished, for callers that need more than a verdict. Valid until the next fact.
  const ExecutionGraph& execution() const;
  const Matcher& matcher() const;
  // The rank of each process that has one; the lowest if it has several. Much cheaper than a
  // Snapshot.
  std::map<ProcessId, int> Ranks() const;
  // The processes that the problems of a verdict are about: those that hold the ranks that it
  // blames, or that wait. A rank that several processes claim names none of them.
  std::vector<ProcessId> About(const Verdict& verdict) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_JOB_MODEL_H_
