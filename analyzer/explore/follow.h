// Steers a machine towards an order of calls.
#ifndef GORDIAN_ANALYZER_EXPLORE_FOLLOW_H_
#define GORDIAN_ANALYZER_EXPLORE_FOLLOW_H_

#include <vector>

#include "analyzer/explore/explorable.h"

namespace gordian::explore {

// A wish: the actor makes that call only after the other one has begun its own.
struct Wish {
  Step later;
  Step before;
};

// Makes moves until none can be made, against a wish only where nothing else can move. Returns the
// way. The state that it ends in is reachable, whatever the wishes.
std::vector<Step> Follow(Explorable* state, const std::vector<Wish>& wishes);

}  // namespace gordian::explore

#endif  // GORDIAN_ANALYZER_EXPLORE_FOLLOW_H_
