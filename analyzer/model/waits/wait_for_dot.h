// The wait-for graph as a picture, for people who look into a verdict. Not on any hot path.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_DOT_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_DOT_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

// Graphviz text of the nodes with can[i] == false and the edges among them; all nodes when `can` is
// empty. OR nodes are drawn as diamonds.
std::string WaitForDot(const WaitForGraph& graph, const Names& names, const std::vector<bool>& can);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_WAIT_FOR_DOT_H_
