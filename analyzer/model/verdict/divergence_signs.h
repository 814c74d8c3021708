// Finds the smallest change that makes diverging sequences of collectives equal.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_DIVERGENCE_SIGNS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_DIVERGENCE_SIGNS_H_

#include <vector>

#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// "divergent-calls": compares, at the first mismatch of a communicator, the other members (a few at
// most) with a rank of the largest group, and reports those whose next calls equal that rank's
// except for one that is extra, missing or swapped with the next. Reports only if that change
// explains all calls that both have made, at least two, and no other change or other arguments
// explain as many. Uses at most kCallsKept calls of a member.
std::vector<Sign> DivergenceSigns(const Matcher&, const Names&);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_DIVERGENCE_SIGNS_H_
