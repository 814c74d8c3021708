// What operations by LL and by LL128 have in common: which part of each block a channel has, whom
// it tells what, and when a peer's lanes may be written. Both ways share a channel's counters and
// slots.
//
// A channel's lanes are reused every kLineSlots operations. A lane may be written again when its
// reader has consumed the operation kLineSlots before. Where data goes both ways between all
// members, he says so as his next operation begins: words that are stored last in a kernel are what
// its end waits for, a way to the peer and back. Else at once.
//
// Thread rule: all threads of a block call together with equal arguments; a channel belongs to one
// block at a time. Block: see ll_device.h.
#ifndef GORDIAN_RUNTIME_CUDA_LL_COMMON_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_LL_COMMON_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/reduce_device.h"
#include "runtime/cuda/work.h"

namespace gordian::runtime::cuda {

// One channel of an operation, in lines (LL) or tiles (LL128).
struct Lines {
  uint64_t first;  // of each block, where the channel begins
  uint32_t count;
  uint32_t slot;  // what follows hangs on what the channel has carried
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

// Whom a rank sends to in i-th place: the one behind it first, so that not all send to one at a
// time. Behind the last peer itself, whom no mask names. A pair has one peer.
GRT_HD inline uint32_t PeerTo(const Work& w, uint32_t i) {
  if ((w.flags & kPair) != 0) return i == 0 ? w.peer : w.rank;
  const uint32_t p = w.rank + static_cast<uint32_t>(Least(i + 1, w.ranks));
  return p < w.ranks ? p : p - w.ranks;
}

// Tells the others what this rank is at: they look when they wait in vain. `number` as
// ChannelFlags::doing's.
template <typename Block>
GRT_HD inline void TellDoing(Block& b, const Work& w, uint32_t channel, uint32_t number) {
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((PartnersMask(w) >> p & 1) == 0) continue;
    StoreWideRelaxed(DoingAt(w, p, channel, number, w.rank, IsReceiver(w)), DoingWord(w, number));
  }
}

// The members were at one operation the last time, which those who only sent did not see then; by
// thread.
template <typename Block>
GRT_HD inline bool Agreed(Block& b, const Work& w, uint32_t channel, const ChannelState& state) {
  bool agreed = true;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    const bool differs = Disagrees(w, channel, state.lines + state.bulks, state.signature, p);
    agreed = agreed & !differs;
  }
  return agreed;
}

// False for one of the threads: the communicator has failed, or the members did not agree the last
// time. The operation is not begun.
template <typename Block>
GRT_HD inline bool MayBegin(Block& b, const Work& w, uint32_t channel, const ChannelState& state) {
  const bool failed = b.Thread() == 0 && LoadRelaxed(&HeaderAt(w, w.rank)->failed) != kNoFailure;
  return Agreed(b, w, channel, state) & !failed;
}

// What the peers have consumed of this rank's operations, those of this thread.
struct Credits {
  uint32_t consumed[kPeersOfThread];
};
template <typename Block>
GRT_HD inline Credits LoadCredits(Block& b, const Work& w, uint32_t channel) {
  Credits credits = {};
  for (uint32_t i = 0; i < kPeersOfThread; ++i) {
    const uint32_t p = b.Thread() + i * b.Threads();
    if (p < w.ranks)
      credits.consumed[i] = LoadRelaxed(&FlagsAt(w, w.rank, channel)->line_credit[p]);
  }
  return credits;
}
// Whether the lanes of this thread's peers may be written by the operation behind `carried` others.
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
    StoreRelaxed(&FlagsAt(w, p, channel)->line_credit[w.rank], carried);
  }
}

// After a barrier behind the last line: gives the lanes back.
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

// The scalars of all that contribute. False: one has not arrived.
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

#endif  // GORDIAN_RUNTIME_CUDA_LL_COMMON_DEVICE_H_
