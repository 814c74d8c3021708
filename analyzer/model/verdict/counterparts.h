// Which ranks of a cycle call its operations in another order than the ranks that have the same
// part in the job.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_COUNTERPARTS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_COUNTERPARTS_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {

struct UnlikeCounterparts {
  std::vector<int> ranks;  // of the job, ascending
  std::string sentence;    // who of their counterparts called what first
};

// A counterpart of a rank is a member of the same communicators, or of their siblings
// (sibling_calls.h): any member where the operation is a collective and the sibling has called the
// same ones so far, the one with the same rank where it is a transfer. Each counterpart that has
// called one of the rank's operations of the cycle, or those with the same numbers on the siblings,
// votes by which of them it called first. A rank is unlike its counterparts where most of them
// called another one first than it did, and like them where most called the same one. Gives the
// ranks that are unlike, where all others of the cycle are like theirs; else none. Calls that are
// not among a communicator's last few are not known.
//
// Linear in the members of the cycle's communicators and their siblings.
UnlikeCounterparts FindUnlikeCounterparts(const WaitForGraph&, const Names&,
                                          const std::vector<Arrow>& cycle);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_COUNTERPARTS_H_
