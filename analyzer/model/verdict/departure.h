// Which of two ranks that wait for each other departs from what the others call.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_

#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {

struct Departure {
  int rank = -1;         // in the job
  std::string sentence;  // how often it has called what, and how often the others have
};

// Rank a is in X and waits for rank b, which has not called this X and is in Y. The ranks that are in
// Y as well are the witnesses: they count what they have called on communicators like X's (of as
// many members), or from and to ranks other than a and b. A count is a testimony if it was the same
// as a's and b's at the Y before, and not zero. Where all testimonies count as a or as b does, of
// two ranks at least, the other of the two departs. a counts up to its own Y, which it may have
// called after X, and up to X where it has not. Nothing: the witnesses decide nothing, or contradict
// each other. Linear in the witnesses times their communicators and peers.
std::optional<Departure> FindDeparture(const WaitForGraph&, const Names&,
                                       const std::vector<Arrow>& cycle);

// A call of a transfer that its other end has not met yet.
struct Waiter {
  PartRef part;
  const MemberSlot* call = nullptr;
  const MemberSlot* other_end = nullptr;  // not called, or not done
};

// The earliest such call with `awaited` (a rank of the communicator) of each other rank. Linear in
// the communicator's pairs.
std::vector<Waiter> WaitersFor(const Matcher&, int comm, int awaited);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_DEPARTURE_H_
