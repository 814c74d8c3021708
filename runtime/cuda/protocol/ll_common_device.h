// The common part of LL and LL128: which part of each block a channel carries, which counters it
// stores for which peers, and when it may write a peer's lanes. Both protocols share a channel's
// counters and slots.
//
// A channel reuses its lanes every kLineSlots operations: a writer may write a lane when the lane's
// reader has consumed the operation kLineSlots before. The reader stores that credit at once,
// except if every member sends data to every other: then it stores the credit when its next
// operation begins. A kernel ends only after its last stores have gone to the peer and back, so the
// credit must not be among them.
//
// Thread rule: all threads of a block call together with equal arguments; a channel belongs to one
// block at a time. Block: see ll_device.h. Nothing here fails.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_COMMON_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_COMMON_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/protocol/reduce_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// One channel of an operation, counted in lines (LL) or tiles (LL128).
struct Lines {
  uint64_t first;  // of each block, where the channel begins
  uint32_t count;
  uint32_t slot;  // it and `flags` follow from how many operations the channel has carried
  LineFlags flags;
};

template <uint32_t kBytes>
GRT_HD inline Lines RangeOf(const Work& w, uint32_t channel) {
  const uint32_t each = UnitsPerChannel(w);
  const uint64_t units = (w.block_bytes + kBytes - 1) / kBytes;
  const uint64_t first = Least(uint64_t{each} * channel, units);
  return {first, static_cast<uint32_t>(Least(each, units - first)), 0, {0, 0}};
}
GRT_HD inline void Number(const Work& w, uint32_t carried, Lines* lines) {
  lines->slot = carried % kLineSlots;
  lines->flags = FlagsOf(carried + 1, w.signature);
}

// The i-th peer that a rank sends to: the next higher rank first, so that not all ranks send to one
// peer at a time. After the last peer: the rank itself, which no mask names. A pair has one peer.
GRT_HD inline uint32_t PeerTo(const Work& w, uint32_t i) {
  if ((w.flags & kPair) != 0) return i == 0 ? w.peer : w.rank;
  const uint32_t p = w.rank + static_cast<uint32_t>(Least(i + 1, w.ranks));
  return p < w.ranks ? p : p - w.ranks;
}

// Stores for the peers which operation this rank is at, for a peer that waits in vain. `number`: as
// in ChannelFlags::doing.
template <typename Block>
GRT_HD inline void TellDoing(Block& b, const Work& w, uint32_t channel, uint32_t number) {
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((PartnersMask(w) >> p & 1) == 0) continue;
    Store<kSystem, kRelaxed>(DoingAt(w, p, channel, number, w.rank, IsReceiver(w)),
                             DoingWord(w, number));
  }
}

// Each thread: whether this thread's peers agreed about the channel's last operation. A rank that
// only sent did not notice a disagreement at that time.
template <typename Block>
GRT_HD inline bool Agreed(Block& b, const Work& w, uint32_t channel, const ChannelState& state) {
  bool agreed = true;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    const bool differs = Disagrees(w, channel, state.lines + state.bulks, state.signature, p);
    agreed = agreed & !differs;
  }
  return agreed;
}

// Each thread: false if the communicator has failed, or members disagreed about the last operation.
// If one thread gets false, the block does not begin the operation.
template <typename Block>
GRT_HD inline bool MayBegin(Block& b, const Work& w, uint32_t channel, const ChannelState& state) {
  const bool failed =
      b.Thread() == 0 && Load<kSystem, kRelaxed>(&HeaderAt(w, w.rank)->failed) != kNoFailure;
  return Agreed(b, w, channel, state) & !failed;
}

// How many of this rank's operations each peer of this thread has consumed.
struct Credits {
  uint32_t consumed[kPeersOfThread];
};
template <typename Block>
GRT_HD inline Credits LoadCredits(Block& b, const Work& w, uint32_t channel) {
  Credits credits = {};
  for (uint32_t i = 0; i < kPeersOfThread; ++i) {
    const uint32_t p = b.Thread() + i * b.Threads();
    if (p < w.ranks)
      credits.consumed[i] = Load<kSystem, kRelaxed>(&FlagsAt(w, w.rank, channel)->line_credit[p]);
  }
  return credits;
}
// Whether an operation may write the lanes of this thread's peers when the channel has carried
// `carried` operations before it.
template <typename Block>
GRT_HD inline bool Suffices(Block& b, const Work& w, const Credits& credits, uint32_t carried) {
  bool all = true;
  for (uint32_t i = 0; i < kPeersOfThread; ++i) {
    const uint32_t p = b.Thread() + i * b.Threads();
    const bool writes = p < w.ranks && ((w.send1 | w.send2) >> p & 1) != 0;
    all = all &
          (!writes | (static_cast<int32_t>(credits.consumed[i] - (carried + 1 - kLineSlots)) >= 0));
  }
  return all;
}

template <typename Block>
GRT_HD inline void TellConsumed(Block& b, const Work& w, uint32_t channel, uint32_t carried) {
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((CreditMask(w) >> p & 1) == 0) continue;
    Store<kSystem, kRelaxed>(&FlagsAt(w, p, channel)->line_credit[w.rank], carried);
  }
}

// Counts the operation, and gives the lanes back to their writers (see above). The caller has made
// a barrier since the block read the last line.
template <typename Block>
GRT_HD inline void FinishLines(Block& b, const Work& w, uint32_t channel, uint32_t carried) {
  const uint32_t others = OthersMask(w);
  const bool mutual = w.send1 == others && w.receive1 == others;
  if (!mutual) TellConsumed(b, w, channel, carried + 1);
  if (b.Thread() == 0) {
    ChannelState* state = StateAt(w, channel);
    state->lines = carried + 1;
    state->signature = w.signature;
  }
}

template <typename Block>
GRT_HD inline void SendScalar(Block& b, const Work& w, uint32_t channel, const Lines& lines) {
  if (!IsPreMultiplied(w)) return;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((w.send1 >> p & 1) == 0) continue;
    StoreLine(&FlagsAt(w, p, channel)->line_scalar[lines.slot][w.rank], w.scalar, lines.flags);
  }
}

// Loads the scalars of all contributors. False: one of them has not arrived.
GRT_HD inline bool TakeScalars(const Work& w, uint32_t channel, const Lines& lines,
                               uint64_t* scalars) {
  bool arrived = true;
  for (uint32_t p = 0; p < w.ranks; ++p) {
    scalars[p] = w.scalar;
    if ((w.receive1 >> p & 1) == 0) continue;
    const LlLine* line = &FlagsAt(w, w.rank, channel)->line_scalar[lines.slot][p];
    if (!LoadLine(line, lines.flags, &scalars[p])) arrived = false;
  }
  return arrived;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_COMMON_DEVICE_H_
