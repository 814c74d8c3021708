#include "analyzer/model/match/tallies.h"

#include <algorithm>

namespace gordian::model {

bool Tallies::Tally::HashAt(uint64_t n, uint64_t* out) const {
  if (n == next) {
    *out = hash;
    return true;
  }
  if (n <= first || n - first > hashes.size()) return false;
  *out = hashes[n - first - 1];
  return true;
}

void Tallies::Note(int comm, int rank, const CalledNumbers& numbers, bool lossy, uint64_t now_ns) {
  const bool collective = numbers.kind == NumberKind::kCollective;
  const Key key = {comm, rank, numbers.kind, collective ? -1 : numbers.peer};
  Tally& tally = tallies_[key];
  tally.comparable = numbers.comparable && !numbers.captured;
  tally.lossy = lossy;
  tally.launched = numbers.Launched();
  if (!numbers.last.empty()) {
    tally.first = numbers.first;
    tally.hashes.clear();
    for (const CalledSignature& signature : numbers.last) tally.hashes.push_back(signature.hash);
  } else if (tally.next != numbers.next) {
    tally.first = numbers.next;
    tally.hashes.clear();
  }
  tally.next = numbers.next;
  tally.hash = numbers.hash;
  if (!collective) {
    const bool sends = numbers.kind == NumberKind::kSend;
    Compare(key, {comm, numbers.peer, sends ? NumberKind::kReceive : NumberKind::kSend, rank},
            now_ns);
    return;
  }
  for (auto it = tallies_.lower_bound({comm, -1, NumberKind::kCollective, -1});
       it != tallies_.end() && std::get<0>(it->first) == comm; ++it) {
    if (std::get<2>(it->first) == NumberKind::kCollective && it->first != key) {
      Compare(key, it->first, now_ns);
    }
  }
}

void Tallies::Compare(const Key& a, const Key& b, uint64_t now_ns) {
  const auto one = tallies_.find(a), other = tallies_.find(b);
  if (one == tallies_.end() || other == tallies_.end()) return;
  const Tally& x = one->second;
  const Tally& y = other->second;
  if (!x.comparable || !y.comparable || (!x.lossy && !y.lossy)) return;
  const uint64_t n = std::min(x.launched, y.launched);
  uint64_t hash_x = 0, hash_y = 0;
  if (n == 0 || !x.HashAt(n, &hash_x) || !y.HashAt(n, &hash_y) || hash_x == hash_y) return;
  const auto& [comm, rank, kind, peer] = a;
  const int other_rank = std::get<1>(b);
  UnlocatedMismatch found;
  found.comm = comm;
  if (kind != NumberKind::kCollective) {
    found.source = kind == NumberKind::kSend ? rank : peer;
    found.destination = kind == NumberKind::kSend ? peer : rank;
  }
  const auto known =
      std::find_if(unlocated_.begin(), unlocated_.end(), [&](const UnlocatedMismatch& m) {
        return m.comm == found.comm && m.source == found.source &&
               m.destination == found.destination;
      });
  const bool fresh = known == unlocated_.end();
  if (!fresh && known->below < n) return;
  UnlocatedMismatch& mismatch = fresh ? unlocated_.emplace_back(found) : *known;
  if (fresh) mismatch.found_ns = now_ns;
  // The fewest operations that are known to differ; all members whose hash is known then.
  mismatch.below = n;
  mismatch.hashes.clear();
  if (kind != NumberKind::kCollective) {
    mismatch.hashes = {{rank, hash_x}, {other_rank, hash_y}};
    return;
  }
  for (const auto& [key, tally] : tallies_) {
    uint64_t hash = 0;
    if (std::get<0>(key) == comm && std::get<2>(key) == NumberKind::kCollective &&
        tally.comparable && tally.launched >= n && tally.HashAt(n, &hash)) {
      mismatch.hashes[std::get<1>(key)] = hash;
    }
  }
}

}  // namespace gordian::model
