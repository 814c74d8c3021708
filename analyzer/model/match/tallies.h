// How many operations each member has called and a rolling hash of their arguments, as the members'
// state blocks say: what shows a mismatch among operations of which nothing else is left. Two
// members that have called n operations must have the same hash of the first n.
//
// Pure data. Records of both members tell the same and more; so a comparison counts only where
// those of one were lost.
#ifndef GORDIAN_ANALYZER_MODEL_MATCH_TALLIES_H_
#define GORDIAN_ANALYZER_MODEL_MATCH_TALLIES_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "analyzer/model/facts/state_block.h"

namespace gordian::model {

// Among the first `below` operations of a communicator, or of a pair of its ranks, some differ.
struct UnlocatedMismatch {
  int comm = -1;
  int source = -1, destination = -1;  // of transfers; -1: collectives
  uint64_t below = 0;
  uint64_t found_ns = 0;
  std::map<int, uint64_t> hashes;  // by rank, of the first `below`
};

class Tallies {
 public:
  // The numbers of rank `rank` of communicator `comm` (an index into Matcher::comms()), in rounds
  // in order. lossy: records of the process were lost.
  void Note(int comm, int rank, const CalledNumbers& numbers, bool lossy, uint64_t now_ns);

  const std::vector<UnlocatedMismatch>& unlocated() const { return unlocated_; }

 private:
  struct Tally {
    bool comparable = true, lossy = false;
    uint64_t launched = 0, next = 0, hash = 0, first = 0;
    std::vector<uint64_t> hashes;  // of the first `first` + 1, + 2, ...

    bool HashAt(uint64_t n, uint64_t* hash) const;
  };
  // Communicator, rank, and for transfers whether it sends, and to or from whom.
  using Key = std::tuple<int, int, NumberKind, int>;

  void Compare(const Key& a, const Key& b, uint64_t now_ns);

  std::map<Key, Tally> tallies_;
  std::vector<UnlocatedMismatch> unlocated_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_MATCH_TALLIES_H_
