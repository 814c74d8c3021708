// Who waits for whom at a round, and why: nodes for all that is unfinished (wait-model.md §1), and
// the edges that the rules (wait-model.md §2, waits/rules/) give them. Built afresh each round;
// linear in what is unfinished.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_GRAPH_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_GRAPH_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/waits/decider.h"
#include "analyzer/model/waits/wait_nodes.h"
#include "analyzer/model/waits/wait_view.h"

namespace gordian::model {

// Valid while the facts that it is built from stay as they are. Not thread-safe.
class WaitForGraph {
 public:
  // now_ns: when the round began. memory: of an earlier graph's nodes, to be used again and given
  // back; may be null.
  WaitForGraph(const ExecutionGraph& execution, const Matcher& matcher, const ModelOptions& options,
               uint64_t now_ns, Conjecture conjecture = Conjecture::kNone,
               std::vector<WaitNode>* memory = nullptr);

  const std::vector<WaitNode>& nodes() const { return nodes_.all(); }

  // can[i]: node i can progress when leaves of the kinds in `progressing` do (kDone always does).
  // Nodes in `forced` (may be empty) do in any case.
  std::vector<bool> Decide(LeafMask progressing, const std::vector<bool>& forced = {}) const;

  // Nodes of what people care about: NCCL launches being done and threads in a blocking call.
  const std::vector<uint32_t>& waiters() const { return waiters_; }
  // Nodes of streams' waits for values in memory.
  const std::vector<uint32_t>& memory_waits() const { return memory_waits_; }

  const ExecutionGraph& execution() const { return view_.execution; }
  const Matcher& matcher() const { return view_.matcher; }
  const BegunUses& begun_uses() const { return view_.begun_uses; }

  // The part behind a rendezvous edge; null for others.
  const Part* PartOf(const WaitNode::Edge&) const;
  // Of a thread that waits for the first use of what it captures; else null.
  const Part* CapturedPartOf(const WaitNode& from, const WaitNode::Edge&) const;

  // Null: not in the round. Its node has edges where the thread is blocked in something that a rule
  // knows to wait.
  const WaitNode* ThreadNode(ProcessId, ThreadId) const;

 private:
  void AddNodes();
  void ItemWaits(const Process&, const StreamQueue&, const WorkItem&);
  void LaunchWaits(const Launch&);
  void ThreadWaits(const Process&, const ThreadState&, uint32_t node);
  void CallWaits(const Process&, const Thread&, const OpenCall&, uint32_t node);

  const WaitView view_;
  WaitNodes nodes_;
  std::vector<uint32_t> waiters_, memory_waits_;
  // Filled by the first Decide().
  mutable AndOrGraph decider_;
  mutable std::vector<uint32_t> leaves_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_GRAPH_H_
