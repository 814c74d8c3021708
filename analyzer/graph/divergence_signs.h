// Sequences of collectives that part: the smallest change that makes them one again.
#ifndef GORDIAN_ANALYZER_GRAPH_DIVERGENCE_SIGNS_H_
#define GORDIAN_ANALYZER_GRAPH_DIVERGENCE_SIGNS_H_

#include <vector>

#include "analyzer/graph/matcher.h"
#include "analyzer/graph/names.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

// "divergent-calls": for the first mismatch of a communicator, against a rank of the largest camp,
// the other members (a few at most) whose next calls there are those of that rank but for one that
// is extra, missing or swapped with the next. Said only if one such change explains all calls that
// both have made, two of them at least, and neither another one nor other arguments explain as
// many. Of at most kCallsKept calls a member.
std::vector<Sign> DivergenceSigns(const Matcher&, const Names&);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_DIVERGENCE_SIGNS_H_
