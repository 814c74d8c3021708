// Who named the wrong peer of a send or receive.
#ifndef GORDIAN_ANALYZER_MODEL_MATCH_WRONG_PEER_H_
#define GORDIAN_ANALYZER_MODEL_MATCH_WRONG_PEER_H_

#include <cstdint>

#include "analyzer/model/match/matcher.h"

namespace gordian::model {

enum class WrongPeer : uint8_t {
  kNo,
  kPossible,  // another rank holds the other end of just such a transfer
  kLikely,    // and the two have exchanged some before, in that direction, but the caller none with
              // the one it names
};

// Whether the caller of an unanswered send or receive rather meant another peer. Of a first
// exchange with either that is no more than possible: a rank may as well be at another step of its
// program. Linear in the pairs of the communicator.
WrongPeer MeantAnotherPeer(const Matcher&, const PartRef&);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_MATCH_WRONG_PEER_H_
