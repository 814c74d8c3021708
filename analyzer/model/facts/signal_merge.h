// W16 where records were lost: what a process's own account says of the signals that it has sent
// and of its waits for them.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_SIGNAL_MERGE_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_SIGNAL_MERGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

// Of one process in one round. Only of a block that tells everything: with a gap in what is
// pending, or without all numbers, nothing is said (Process::signals_counted stays false), and
// the model holds no wait for its signals, and none of its own waits, to be stuck.
class SignalMerge {
 public:
  SignalMerge(ExecutionGraph* execution, Process* process, uint64_t now_ns);

  // Puts what is pending into the model. Sets Process::signals_counted.
  void Pending();
  // The launch, whose end was lost: its signals were counted, and nothing of it is pending.
  bool IsOver(const Launch& launch) const;
  // They were not counted: the call was refused, or came after the numbers were read.
  bool IsUncounted(const Launch& launch) const;
  // After those that are over were let go of: how many are done.
  void Count();

 private:
  // A line of this process, and the low half of the number of one of its calls.
  using Line = std::tuple<CommId, NumberKind, int32_t, uint64_t>;

  bool Tellable() const;
  bool Captured(CommId comm) const;
  const LocalComm* Known(CommId comm) const;
  void One(const PendingStream& stream, const PendingOperation& operation);

  ExecutionGraph& execution_;
  Process& process_;
  const StateBlock& block_;
  const uint64_t now_ns_;
  std::map<Line, std::map<uint64_t, uint64_t>> pending_;  // number -> how many
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_SIGNAL_MERGE_H_
