// What the rules of waiting read: the facts of one round, and what several rules derive from them.
//
// Valid while the facts stay as they are. Not thread-safe: it keeps what it has derived.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_WAIT_VIEW_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_WAIT_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/job_model.h"
#include "analyzer/model/waits/begun_early.h"
#include "analyzer/model/waits/begun_uses.h"

namespace gordian::model {

// What no host can see, taken to be so: a circle that needs it is a suspicion.
enum class Conjecture : uint8_t {
  kNone,
  kUnbuffered,    // sends wait for their receives (W1p)
  kSharedQueue,   // W6: a device with more streams than hardware queues has one queue for them all
  kNoProcessors,  // W6: an operation of NCCL leaves no multiprocessors to later ones of its device
  // Threads that have called no NCCL call none, and one that has, and runs, waits for the program's
  // host functions.
  kBystanders,
};

struct WaitView {
  // now_ns: when the round began.
  WaitView(const ExecutionGraph& execution, const Matcher& matcher, const ModelOptions& options,
           uint64_t now_ns, Conjecture conjecture);

  uint64_t Lasted(uint64_t since_ns) const { return execution.Lasted(since_ns, now_ns); }
  // How long a thread has been in its call.
  uint64_t Inside(const OpenCall& open) const { return Lasted(open.record.time_ns); }
  // Unfinished writes of values that streams of the process hold (W10).
  const std::vector<std::pair<const StreamQueue*, const WorkItem*>>& WritesOf(const Process&) const;
  // The process's launches among `launches`.
  const std::vector<LaunchId>& LaunchesOf(ProcessId) const;

  const ExecutionGraph& execution;
  const Matcher& matcher;
  const ModelOptions& options;
  const uint64_t now_ns;
  const Conjecture conjecture;
  std::vector<LaunchId> launches;  // all that are unfinished, in their order
  BegunUses begun_uses;
  BegunEarly begun_early;

 private:
  mutable std::map<ProcessId, std::vector<std::pair<const StreamQueue*, const WorkItem*>>> writes_;
  mutable std::map<ProcessId, std::vector<LaunchId>> launches_of_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_WAIT_VIEW_H_
