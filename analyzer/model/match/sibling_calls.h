// Sibling communicators: those that play the same part for other ranks, as the data-parallel groups
// of a job do, one for each place in its tensor-parallel groups. What their members call as their
// n-th collective says which of two members departs that disagree on theirs.
#ifndef GORDIAN_ANALYZER_MODEL_MATCH_SIBLING_CALLS_H_
#define GORDIAN_ANALYZER_MODEL_MATCH_SIBLING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/match/matcher.h"

namespace gordian::model {

// The communicators of as many members that share no process with this one, and that are either
// children of the same split, or the n-th communicators that all of their processes made, n being
// the same for all members of both. All members of both must have been seen. Linear in the job's
// communicators and the members of those of one size.
std::vector<int> SiblingsOf(const Matcher&, int comm);

// Whether the communicators' collectives agree, as far as the last ones are known: at least one
// before this number unless it is the first, and none up to it differs.
bool CalledAlike(const Matcher&, int one, int other, uint64_t sequence);

struct CampOfSiblings {
  size_t camp = 0;         // in Camps()
  std::vector<int> comms;  // the siblings that say so, ascending
  OpSignature signature;   // what their members call
};

// Members disagree on a collective, and no camp has most of them: gives the camp that calls what
// each sibling's members agree on as theirs with the same number. A sibling counts if it is known to
// have called the same as this communicator before, or if this is the first collective of both.
// Nothing: no sibling counts, or they call what no camp does, or what several do.
std::optional<CampOfSiblings> FindCampOfSiblings(
    const Matcher&, const Mismatch&, const std::vector<std::vector<const MismatchMember*>>& camps);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_MATCH_SIBLING_CALLS_H_
