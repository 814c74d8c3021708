// LL: every 8 bytes travel beside their flags, so that data and notice are one store and one hop. One-shot:
// what a rank needs arrives whole. Two-shot (all-reduce): shards arrive, are combined, and sums go out.
//
// A channel's lanes are reused every kLineSlots operations. A lane may be written again when its reader has
// told (line_credit) that the operation kLineSlots before is consumed.
//
// RunLines is the fast way, for the operation's own block: it keeps its place in registers while it waits.
// StepLines is the same wire protocol as run-to-completion steps with a counter as its only state, for
// blocks that help. Each step looks before it writes: whoever repeats a step that was not ready finds
// inputs and outputs untouched, in place too.
//
// A line of another operation than this rank's never arrives: its flags have the signature in them.
//
// Thread rule: all threads of a block call together with equal arguments; a channel belongs to one block
// at a time. kRanks: at least the number of ranks. Block: Thread(), Threads(), Sync(), All(bool), Targets().
#ifndef GORDIAN_RUNTIME_CUDA_LL_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_LL_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/reduce_device.h"
#include "runtime/cuda/work.h"

namespace gordian::runtime::cuda {

enum class StepResult : uint8_t { kAdvanced, kNotReady, kDone };

// One channel of an LL operation.
struct Lines {
  uint64_t first;  // line of each block where the channel begins
  uint32_t count;
  uint32_t slot;
  LineFlags flags;
};

GRT_HD inline Lines LinesOf(const Work& w, uint32_t channel, uint32_t carried) {
  const uint32_t each = LinesPerChannel(w);
  const uint64_t lines = LineCount(w);
  const uint64_t first = Least(uint64_t{each} * channel, lines);
  return {first, static_cast<uint32_t>(Least(each, lines - first)), carried % kLineSlots, FlagsOf(carried + 1, w.signature)};
}

// Bytes of a line of block p; 0 where the block has ended.
GRT_HD inline uint32_t LineBytes(const Work& w, uint32_t p, uint64_t line) {
  const uint64_t bytes = BlockBytes(w, p);
  return line * 8 >= bytes ? 0 : static_cast<uint32_t>(Least(8, bytes - line * 8));
}

// Tells the others what this rank is at: they look when they wait in vain. `number` as ChannelFlags::doing's.
template <typename Block>
GRT_HD inline void TellDoing(Block& b, const Work& w, uint32_t channel, uint32_t number) {
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((PartnersMask(w) >> p & 1) == 0) continue;
    StoreWideRelaxed(DoingAt(w, p, channel, number, w.rank, IsReceiver(w)), DoingWord(w, number));
  }
}

// False for one of the threads: the communicator has failed, or the members were not at one operation the
// last time, which those who only sent did not see then. The operation is not begun.
template <typename Block>
GRT_HD inline bool MayBegin(Block& b, const Work& w, uint32_t channel, const ChannelState& state) {
  bool may = b.Thread() != 0 || LoadRelaxed(&HeaderAt(w, w.rank)->failed) == kNoFailure;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if (Disagrees(w, channel, state.lines + state.bulks, state.signature, p)) may = false;
  }
  return may;
}

// For threads below the number of ranks: whether that peer's lanes may be written.
GRT_HD inline bool HasLineCredit(const Work& w, uint32_t channel, uint32_t peer, uint32_t carried) {
  // Loaded in any case: no branch before it.
  const uint32_t consumed = LoadRelaxed(&FlagsAt(w, w.rank, channel)->line_credit[peer]);
  return (((w.send1 | w.send2) >> peer & 1) == 0) | (static_cast<int32_t>(consumed - (carried + 1 - kLineSlots)) >= 0);
}

// `loaded`: the first line of this thread, where all peers get the same block.
template <uint32_t kRanks, typename Block>
GRT_HD inline void SendLines(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                             uint64_t loaded) {
  if (IsPreMultiplied(w)) {
    for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
      if ((w.send1 >> p & 1) == 0) continue;
      StoreLine(&FlagsAt(w, p, channel)->line_scalar[lines.slot][w.rank], w.scalar, lines.flags);
    }
  }
  // Who sends nothing may have no input.
  const bool same = w.in_stride == 0 && w.send1 != 0;
  for (uint32_t l = b.Thread(); l < lines.count; l += b.Threads()) {
    const uint64_t line = lines.first + l;
    uint64_t word = loaded;
    if (same && l != b.Thread()) word = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((w.send1 >> p & 1) == 0) continue;
      if (!same) {
        const uint32_t bytes = LineBytes(w, p, line);
        if (bytes == 0) continue;
        word = LoadBytes(w.in + p * w.in_stride + line * 8, bytes);
      }
      StoreLine(LaneAt(w, p, channel, lines.slot, 0, w.rank) + l, word, lines.flags);
    }
  }
}

// The scalars of all that contribute. False: one has not arrived.
GRT_HD inline bool TakeScalars(const Work& w, uint32_t channel, const Lines& lines, uint64_t* scalars) {
  bool arrived = true;
  for (uint32_t p = 0; p < w.ranks; ++p) {
    scalars[p] = w.scalar;
    if ((w.receive1 >> p & 1) == 0) continue;
    const LlLine* line = &FlagsAt(w, w.rank, channel)->line_scalar[lines.slot][p];
    if (!LoadLine(line, lines.flags, &scalars[p])) arrived = false;
  }
  return arrived;
}

// Line l of the peers in `from`. False: not all have arrived. The loads go out together, four at a time: one after the
// other, each would wait for the one before.
template <uint32_t kRanks>
GRT_HD inline bool LoadLines(const Work& w, uint32_t channel, const Lines& lines, uint32_t phase, uint32_t from,
                             uint32_t l, uint64_t* words) {
  constexpr uint32_t kTogether = kRanks < 4 ? kRanks : 4;
  bool arrived = true;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t first = 0; first < kRanks; first += kTogether) {
    LlLine got[kTogether];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < kTogether; ++i) {
      got[i] = LoadLineIf((from >> (first + i) & 1) != 0, LaneAt(w, w.rank, channel, lines.slot, phase, first + i) + l);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < kTogether; ++i) {
      const bool has = Carries(got[i], lines.flags, &words[first + i]);
      arrived = arrived && (has || (from >> (first + i) & 1) == 0);
    }
  }
  return arrived;
}

// Phase 1 of line l: if all have arrived, combines or places it (and sends the sum). False: not all.
template <typename T, uint32_t kRanks>
GRT_HD inline bool TakeLine(const Work& w, uint32_t channel, const Lines& lines, uint32_t l,
                            uint32_t polls) {
  const uint64_t line = lines.first + l;
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint32_t bytes = LineBytes(w, w.rank, line);
  if (bytes == 0) return true;  // behind the end of the own shard: nobody sends it
  uint64_t words[kRanks] = {};
  [[maybe_unused]] uint64_t scalars[std::is_same_v<T, AnyType> ? kRanks : 1];
  uint64_t own = 0;
  if ((w.flags & kOwn) != 0) own = LoadBytes(w.in + w.rank * w.in_stride + line * 8, bytes);
  for (;; --polls) {
    bool arrived = LoadLines<kRanks>(w, channel, lines, 0, w.receive1, l, words);
    if constexpr (std::is_same_v<T, AnyType>) {
      if (IsPreMultiplied(w) && !TakeScalars(w, channel, lines, scalars)) arrived = false;
    }
    if (arrived) break;
    if (polls == 0) return false;
  }
  if ((w.flags & kReduces) == 0) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((w.receive1 >> p & 1) == 0) continue;
      StoreBytes(w.out + p * w.out_stride + line * 8, words[p], bytes);
    }
    if ((w.flags & kOwn) != 0) {
      // Here only: by now the others are known to be at this operation.
      char* to = w.out + w.rank * w.out_stride + line * 8;
      if (to != w.in + w.rank * w.in_stride + line * 8) StoreBytes(to, own, bytes);
    }
    return true;
  }
  if ((w.flags & kWritesOutput) == 0) return true;  // a leaf of a reduction receives nothing
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t p = 0; p < kRanks; ++p) {
    if (p == w.rank) words[p] = own;
  }
  const uint64_t sum =
      Reduce<T>(words, w.receive1 | 1u << w.rank, w.type, w.op, w.ranks, scalars);
  StoreBytes(w.out + (shards ? w.rank * w.out_stride : 0) + line * 8, sum, bytes);
  if (shards) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((w.send2 >> p & 1) == 0) continue;
      StoreLine(LaneAt(w, p, channel, lines.slot, 1, w.rank) + l, sum, lines.flags);
    }
  }
  return true;
}

// Phase 2 of line l of all shards but the own.
template <uint32_t kRanks>
GRT_HD inline bool TakeSum(const Work& w, uint32_t channel, const Lines& lines, uint32_t l,
                           uint32_t polls) {
  const uint64_t line = lines.first + l;
  uint64_t words[kRanks] = {};
  uint32_t from = w.receive2;
  for (uint32_t p = 0; p < kRanks; ++p) {
    if (p < w.ranks && LineBytes(w, p, line) == 0) from &= ~(1u << p);
  }
  for (; !LoadLines<kRanks>(w, channel, lines, 1, from, l, words); --polls) {
    if (polls == 0) return false;
  }
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t p = 0; p < kRanks; ++p) {
    if ((w.receive2 >> p & 1) == 0) continue;
    const uint32_t bytes = LineBytes(w, p, line);
    if (bytes != 0) StoreBytes(w.out + p * w.out_stride + line * 8, words[p], bytes);
  }
  return true;
}

// After a barrier behind the last line: gives the lanes back.
template <typename Block>
GRT_HD inline void FinishLines(Block& b, const Work& w, uint32_t channel, uint32_t carried) {
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    if ((CreditMask(w) >> p & 1) != 0) {
      StoreRelaxed(&FlagsAt(w, p, channel)->line_credit[w.rank], carried + 1);
    }
  }
  if (b.Thread() == 0) {
    ChannelState* state = StateAt(w, channel);
    state->lines = carried + 1;
    state->signature = w.signature;
  }
}

// Carries a channel to its end. `state`: the channel's. stall() is called by all threads after so many looks in vain, and returns how many
// are to come until its next call; 0 ends the operation here, unfinished. Returns whether it was finished.
template <typename T, uint32_t kRanks, typename Block, typename Stall>
GRT_HD inline bool RunLines(Block& b, const Work& w, uint32_t channel, const ChannelState& state, uint32_t polls,
                            Stall&& stall) {
  const uint32_t carried = state.lines;
  TellDoing(b, w, channel, state.lines + state.bulks + 1);
  const Lines lines = LinesOf(w, channel, carried);
  // On its way while the credits are: both are most of a microsecond's wait at small sizes.
  uint64_t loaded = 0;
  if (w.in_stride == 0 && w.send1 != 0 && b.Thread() < lines.count) {
    const uint64_t line = lines.first + b.Thread();
    loaded = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
  }
  // MayBegin and the credits at once: the loads are under way together, where one after the other would cost a
  // tenth of what the smallest operations take.
  bool may_begin = true, ready = true;
  {
    const uint32_t failed = b.Thread() == 0 ? LoadRelaxed(&HeaderAt(w, w.rank)->failed) : 0;
    for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
      const bool differs = Disagrees(w, channel, carried + state.bulks, state.signature, p);
      const bool credit = HasLineCredit(w, channel, p, carried);
      may_begin = may_begin & !differs;
      ready = ready & credit;
    }
    may_begin = may_begin & (failed == kNoFailure);
  }
  for (uint32_t tries = 1;; ++tries) {
    if (b.All(may_begin & ready)) break;
    ready = true;
    for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
      ready = ready && HasLineCredit(w, channel, p, carried);
    }
    if (tries < polls) continue;
    tries = 0;
    polls = stall();
    if (polls == 0) return false;
  }
  SendLines<kRanks>(b, w, channel, lines, loaded);
  const bool sums = (w.flags & kTwoPhase) != 0;
  bool second = false;
  for (uint32_t l = b.Thread();;) {
    bool arrived = true;
    while (arrived && !second) {
      if (l >= lines.count) {
        second = true;
        l = b.Thread();
      } else {
        arrived = TakeLine<T, kRanks>(w, channel, lines, l, polls);
        if (arrived) l += b.Threads();
      }
    }
    while (sums && arrived && l < lines.count) {
      arrived = TakeSum<kRanks>(w, channel, lines, l, polls);
      if (arrived) l += b.Threads();
    }
    if (b.All(arrived)) break;
    polls = stall();
    if (polls == 0) return false;
  }
  FinishLines(b, w, channel, carried);
  return true;
}

// One step. pc: 0 send, 1 first phase, 2 second phase.
template <typename T, typename Block>
GRT_HD inline StepResult StepLines(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  const ChannelState state = *StateAt(w, channel);
  const uint32_t carried = state.lines;
  const Lines lines = LinesOf(w, channel, carried);
  bool ready = true;
  if (*pc == 0) {
    TellDoing(b, w, channel, state.lines + state.bulks + 1);
    ready = MayBegin(b, w, channel, state);
    for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
      ready = ready && HasLineCredit(w, channel, p, carried);
    }
    if (!b.All(ready)) return StepResult::kNotReady;
    uint64_t loaded = 0;
    if (w.in_stride == 0 && w.send1 != 0 && b.Thread() < lines.count) {
      const uint64_t line = lines.first + b.Thread();
      loaded = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
    }
    SendLines<kMaxRanks>(b, w, channel, lines, loaded);
    *pc = 1;
    return StepResult::kAdvanced;
  }
  const uint32_t phase = *pc - 1;
  const uint32_t from = phase == 0 ? w.receive1 : w.receive2;
  for (uint32_t l = b.Thread(); ready && l < lines.count; l += b.Threads()) {
    for (uint32_t p = 0; p < w.ranks; ++p) {
      if ((from >> p & 1) == 0) continue;
      if (LineBytes(w, phase == 0 ? w.rank : p, lines.first + l) == 0) continue;
      uint64_t word;
      if (!LoadLine(LaneAt(w, w.rank, channel, lines.slot, phase, p) + l, lines.flags, &word)) {
        ready = false;
      }
    }
  }
  if constexpr (std::is_same_v<T, AnyType>) {
    uint64_t scalars[kMaxRanks];
    if (phase == 0 && IsPreMultiplied(w) && !TakeScalars(w, channel, lines, scalars)) ready = false;
  }
  if (!b.All(ready)) return StepResult::kNotReady;
  for (uint32_t l = b.Thread(); l < lines.count; l += b.Threads()) {
    if (phase == 0) {
      TakeLine<T, kMaxRanks>(w, channel, lines, l, 0);
    } else {
      TakeSum<kMaxRanks>(w, channel, lines, l, 0);
    }
  }
  b.Sync();
  if (phase == 0 && (w.flags & kTwoPhase) != 0) {
    *pc = 2;
    return StepResult::kAdvanced;
  }
  FinishLines(b, w, channel, carried);
  return StepResult::kDone;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LL_DEVICE_H_
