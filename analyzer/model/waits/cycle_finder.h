// The shortest witness of a deadlock on what cannot move (wait-model.md §3).
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_CYCLE_FINDER_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_CYCLE_FINDER_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

struct WitnessStep {
  uint32_t node;
  WaitNode::Edge edge;  // to the next step's node; the last one's to the first's
};

// A cycle through rendezvous edges among the nodes with can[node] == false; empty when there is
// none. Prefers cycles without "not called" edges (W5), then those through few ranks, then short
// ones. Nodes in `except` are not entered.
std::vector<WitnessStep> FindWitness(const WaitForGraph&, const std::vector<bool>& can,
                                     const std::vector<bool>& except = {});

// An edge by which a launch, a thread or a stream's wait for memory waits for another.
bool IsOrigin(const WaitNode& from, const WaitNode::Edge&);

// The nodes that prove that `witness` cannot move: the witness itself and, for each node in the
// proof, one thing that it waits for (an AND), or all of them (an OR). Leaves are left out, but
// `*leaves` (may be null) gets them.
std::vector<uint32_t> ProofOf(const WaitForGraph&, const std::vector<bool>& can,
                              const std::vector<WitnessStep>& witness,
                              std::vector<uint32_t>* leaves = nullptr);
// The same for one stuck node.
std::vector<uint32_t> ProofOf(const WaitForGraph&, const std::vector<bool>& can, uint32_t node,
                              std::vector<uint32_t>* leaves = nullptr);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_CYCLE_FINDER_H_
