// Groups that a rank has left without ending them: beside a verdict, what may be why.
#ifndef GORDIAN_ANALYZER_GRAPH_GROUP_SIGNS_H_
#define GORDIAN_ANALYZER_GRAPH_GROUP_SIGNS_H_

#include <vector>

#include "analyzer/graph/execution_graph.h"
#include "analyzer/graph/names.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

// "group-left-open": a thread of a culprit has called operations since an ncclGroupStart, and is
// not in the ncclGroupEnd that would launch them. At most a few, one a thread, by rank. Linear in
// the threads of all processes.
std::vector<Sign> GroupSigns(const ExecutionGraph&, const Names&, const Finding&);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_GROUP_SIGNS_H_
