// Sends and receives that miss each other: beside a verdict, what may be why.
#ifndef GORDIAN_ANALYZER_GRAPH_TRANSFER_SIGNS_H_
#define GORDIAN_ANALYZER_GRAPH_TRANSFER_SIGNS_H_

#include <vector>

#include "analyzer/graph/matcher.h"
#include "analyzer/graph/names.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

// "wrong-peer": of one communicator a send without a receive, and a receive of equal length of
// another rank that waits for a send of the same one. At most a few. Linear in the transfers that
// are held.
std::vector<Sign> TransferSigns(const Matcher&, const Names&);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_TRANSFER_SIGNS_H_
