// Names the communicators of a job for people, by their members where NCCL was given no name. A
// name depends on the members and on the order in which their lowest rank made its communicators,
// so that two runs of one program give the same names.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_COMM_NAMES_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_COMM_NAMES_H_

#include <string>
#include <vector>

#include "analyzer/model/match/matcher.h"

namespace gordian::model {

// Ranks of the job, ascending and distinct.
struct MemberRanks {
  std::vector<int> ranks;
  int unseen = 0;  // members that gordian has not seen
};

// "{0,1}", "{0-7}", "{0,8,...,504}", "{0,?}" where members are unseen; of long lists without a
// pattern the beginning: "{0,1,3,8,...}".
std::string MemberSet(const MemberRanks& members);

// The name of each communicator, by its index in Matcher::comms(); `members` has the same order.
// "dp": NCCL's name, if no other communicator has it. "tp {2,3}": one of several of that name.
// "comm {0,1}": one without a name. "comm {0,1} (2nd)": the second of these members.
std::vector<std::string> CommNames(const std::vector<Communicator>& comms,
                                   const std::vector<MemberRanks>& members);

// The first member whose call that made the communicator was seen; -1: none.
int MakerOf(const Communicator& comm);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_COMM_NAMES_H_
