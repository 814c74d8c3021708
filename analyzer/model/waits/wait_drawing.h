// The wait-for graph as a picture, for people who look into a verdict. Not on any hot path.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_WAIT_DRAWING_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_WAIT_DRAWING_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

// Plain data.
struct WaitDrawing {
  struct Node {
    std::string label;
    int rank = -1;         // -1: of none, or of all
    bool any = false;      // one of what it waits for suffices (OR)
    bool witness = false;  // on the shortest cycle
  };
  struct Arc {
    size_t from = 0, to = 0;  // places in `nodes`
    Reason reason = Reason::kStartedCollective;
    bool witness = false;
  };
  std::vector<Node> nodes;
  std::vector<Arc> arcs;
};

// The nodes with can[i] == false and the edges among them; all nodes when `can` is empty.
WaitDrawing DrawWaits(const WaitForGraph& graph, const Names& names, const std::vector<bool>& can);

// A part of a drawing: the witness; or what is at most `hops` arrows, in any direction, away from
// the nodes of a rank.
WaitDrawing WitnessOf(const WaitDrawing& drawing);
WaitDrawing NeighboursOf(const WaitDrawing& drawing, int rank, int hops);

// Graphviz text. OR nodes are diamonds; the witness is of class "cycle" and red.
std::string DotOf(const WaitDrawing& drawing);
// GraphML (graphml.graphdrawing.org): a node has label, rank, any and witness, an edge reason and
// witness.
std::string GraphMlOf(const WaitDrawing& drawing);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_WAIT_DRAWING_H_
