// Turns nodes of the wait-for graph into the parts of a finding: arrows, operations, culprits.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_DESCRIBE_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_DESCRIBE_H_

#include <set>
#include <string>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/model/waits/cycle_finder.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

// One arrow of a cycle, with the nodes it comes from.
struct Arrow {
  WaitEdge edge;
  const Part* part = nullptr;      // operations
  const Part* captured = nullptr;  // captured operations
  const InitCall* init = nullptr;  // communicator-making calls
  std::string operation;           // calls that make communicators
  std::string awaited;  // the part of it that the other rank has not reached; empty: the operation
  std::string key;      // of the store that it waits for: "key \"ready\" of the store"
  bool not_called = false;   // the other has not made the call
  ThreadId caller = 0;       // that has to make it; 0: not seen
  std::vector<int> missing;  // where that thread's process holds several ranks: those it lacks
  bool same_thread = false;  // the waiting thread itself has to make the call, for other ranks
  std::set<Reason> local;    // what holds the other rank back, locally

  const std::string& Awaited() const { return awaited.empty() ? operation : awaited; }
  // As in "it waits for ...".
  const std::string& WaitsFor() const { return key.empty() ? operation : key; }
};

class Describer {
 public:
  Describer(const WaitForGraph& graph, const Names& names) : graph_(graph), names_(names) {}

  std::vector<Arrow> Arrows(const std::vector<WitnessStep>& witness) const;

  // Unfinished operations that some of `nodes` (node ids) belong to; at most 32 of them.
  std::vector<StuckOperation> Operations(const std::vector<uint32_t>& nodes) const;

  // Ranks of the processes that own waiters with can == false.
  std::set<int> StuckRanks(const std::vector<bool>& can) const;

  int RankOf(const WaitNode&) const;
  // What a process that has not joined does now; sets *site (may be null) to where.
  std::string Instead(ProcessId, Site* site) const;
  std::string Operation(const WaitNode& waiter) const;  // that a waiting node waits in
  // "key \"ready\"", if the thread waits for one of a store.
  std::string KeyAwaited(const WaitNode& thread) const;
  const InitCall* InitOf(const WaitNode& thread) const;

 private:
  std::string HostCall(const WaitNode& thread, Site* site) const;
  // Ranks of the members of what the arrow waits for that this process holds and has not called for.
  std::vector<int> MissingIn(ProcessId, const Arrow&) const;
  // True if no other thread of the process has called NCCL, or those that have are gone.
  bool CallsAlone(ProcessId, ThreadId) const;
  StuckOperation Signals(const WaitNode& needs) const;
  OperationMember Member(int comm, int rank, const MemberSlot& slot) const;

  const WaitForGraph& graph_;
  const Names& names_;
};

// The communicators that the finding's cycle and operations name, each once, in that order.
std::vector<FoundCommunicator> CommunicatorsOf(const Finding&, const Matcher&, const Names&);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_DESCRIBE_H_
