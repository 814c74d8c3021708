// Turns nodes of the wait-for graph into what a finding says: arrows, operations, culprits.
#ifndef GORDIAN_ANALYZER_GRAPH_DESCRIBE_H_
#define GORDIAN_ANALYZER_GRAPH_DESCRIBE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/graph/cycle_finder.h"
#include "analyzer/graph/names.h"
#include "analyzer/graph/verdict.h"
#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {

// One arrow of a cycle with what it was made from.
struct Arrow {
  WaitEdge edge;
  const Part* part = nullptr;      // operations
  const Part* captured = nullptr;  // that are captured
  const InitCall* init = nullptr;  // communicator-making calls
  std::string operation;           // "AllReduce #12 on dp"
  std::string awaited;             // what of it the other has not reached; empty: the operation
  bool not_called = false;         // the other has not made the call
  std::set<Reason> local;          // what holds the other back, at its own rank

  const std::string& Awaited() const { return awaited.empty() ? operation : awaited; }
};

class Describer {
 public:
  Describer(const WaitForGraph& graph, const Names& names) : graph_(graph), names_(names) {}

  std::vector<Arrow> Arrows(const std::vector<WitnessStep>& witness) const;

  // Ranks that depart from the order in which most call the cycle's operations; all of the cycle's
  // when there is no majority.
  std::vector<int> Culprits(const std::vector<Arrow>& cycle) const;

  // Unfinished operations that some of `nodes` (node ids) belong to; at most 32 of them.
  std::vector<StuckOperation> Operations(const std::vector<uint32_t>& nodes) const;

  // Ranks of the processes that own waiters with can == false.
  std::set<int> StuckRanks(const std::vector<bool>& can) const;

  int RankOf(const WaitNode&) const;
  // What a process does now, for one that has not joined; *site (may be null): where.
  std::string Instead(ProcessId, Site* site) const;
  std::string Operation(const WaitNode& waiter) const;  // what a waiting node waits in
  const InitCall* InitOf(const WaitNode& thread) const;
  std::optional<uint64_t> FirstUseOrder(int comm, int rank) const;

 private:
  std::string HostCall(const WaitNode& thread, Site* site) const;
  StuckOperation Signals(const WaitNode& needs) const;
  OperationMember Member(int comm, int rank, const MemberSlot& slot) const;

  const WaitForGraph& graph_;
  const Names& names_;
};

uint64_t Bytes(const OpSignature&);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_DESCRIBE_H_
