// The job as the wait model sees it: fed with facts, asked for a verdict.
//
// Pure: no I/O, no clock, no thread. Not thread-safe: calls are serialised by the owner. Records of
// one process must arrive in the order of each of its threads; between threads and processes in any
// order that is not older than the last Decide(). Nothing throws on any input: facts that
// contradict each other lower the confidence and are named in Evidence::not_visible.
//
// Source: docs/wait-model.md, whose rule numbers (W1..W15) the implementation cites.
#ifndef GORDIAN_ANALYZER_GRAPH_JOB_MODEL_H_
#define GORDIAN_ANALYZER_GRAPH_JOB_MODEL_H_

#include <map>
#include <memory>

#include "analyzer/graph/event.h"
#include "analyzer/graph/job_snapshot.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

struct ModelOptions {
  uint64_t suspect_after_ns = 5'000'000'000;  // no progress for so long, and no proof: a suspicion
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
  // A process's last account of itself, before OnProcessEnded.
  void OnFinalCounts(ProcessId, uint64_t lost_records, uint64_t nccl_calls);
  // What its state block says at its end, before OnProcessEnded.
  void OnFinalBlock(ProcessId, std::shared_ptr<const StateBlock> block);
  // Something that this process did will never be told. The order of its records shows holes
  // between them, but not that the last ones are missing.
  void OnRecordsMissing(ProcessId);
  void OnRecord(const CallRecord&);
  void OnJobEnded(ExitKind, int exit_value, uint64_t time_ns, bool killed_by_gordian);

  // Takes the state of all processes and decides. Call it once a round, rounds in order. A deadlock
  // is confirmed only when two successive rounds show the same stuck set without any progress.
  void OnRound(Round);

  // True when something is stuck in the last round that another round soon could confirm.
  bool WantsConfirmation() const;

  // True while any operation, communicator call or host wait is unfinished: rounds are worth
  // asking.
  bool HasUnfinished() const;

  // The verdict from all that is known now. A confirmed finding never goes away,
  // apart from the exit of a rank that has come back and that nobody waits for any more.
  Verdict Current() const;

  // What every rank and communicator is at now.
  JobSnapshot Snapshot() const;

  // All that is unfinished, for who wants more than a verdict. Valid until the next fact.
  const ExecutionGraph& execution() const;
  const Matcher& matcher() const;
  // The rank of each process that is one now; the lowest, where it has several. Much less than a
  // Snapshot.
  std::map<ProcessId, int> Ranks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_JOB_MODEL_H_
