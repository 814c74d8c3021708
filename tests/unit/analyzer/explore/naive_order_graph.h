// The naive twin of analyzer/explore/collective_order_graph.h: nothing is folded, and an arrow is made
// for each pair of calls that share a resource. For a few hundred calls.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_EXPLORE_NAIVE_ORDER_GRAPH_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_EXPLORE_NAIVE_ORDER_GRAPH_H_

#include <cstddef>
#include <vector>

#include "analyzer/explore/collective_order_graph.h"

namespace gordian::explore::testing {

Candidates FindNaively(const std::vector<OrderedCall>& calls, size_t most = 100);

}  // namespace gordian::explore::testing

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_EXPLORE_NAIVE_ORDER_GRAPH_H_
