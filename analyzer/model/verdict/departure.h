// Which of two ranks that wait for each other departs from what the others call.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {

struct Departure {
  int rank = -1;         // in the job
  std::string sentence;  // how often it has called what, and how often the others have
};

// Rank a is in X and waits for rank b, which has called X once less and is in Y. The ranks that are
// in Y as well are the witnesses: they count what they have called on communicators like X's (of
// as many members), or from and to ranks other than a and b. Where all that count as a or as b do
// agree, two at least, the other of the two departs. Nothing: the witnesses decide nothing, or
// contradict each other. Linear in the witnesses times their communicators and peers.
std::optional<Departure> FindDeparture(const WaitForGraph&, const Names&,
                                       const std::vector<Arrow>& cycle);

// The ranks (of the communicator) other than `awaited` that have called a transfer with it which it
// has not completed, with the earliest such call of each. Linear in the communicator's pairs.
std::vector<std::pair<int, const MemberSlot*>> WaitersFor(const Communicator&, int awaited);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_
