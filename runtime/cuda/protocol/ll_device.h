// Carries operations by LL (ll_line_device.h) or LL128 (ll_tile_device.h). One-shot: each rank
// sends its whole data to the others. Two-shot (all-reduce): ranks send each other shards, combine
// them, and send the sums.
//
// The operation's own block runs RunLines, the faster form, which keeps its place in registers
// while it waits. Blocks that help run StepLines: the same wire protocol as run-to-completion
// steps, with a counter as the only state. Each step looks before it writes, so a step that was not
// ready has changed neither inputs nor outputs, and a block may repeat it, even in place.
//
// A rank never accepts a line of another operation: the signature is part of its flags.
//
// Thread rule: all threads of a block call together with equal arguments; a channel belongs to one
// block at a time. Errors: none; a rank whose peers disagree waits, see help_device.h. kRanks: at
// least the number of ranks. Block: Thread(), Threads(), Sync(), All(bool); Targets(),
// SumTargets(): room for one address a rank, of scattered chunks and of chunks that the middle step
// hands on; Warp(), Warps(), Lane(), SyncWarp(), AllOfWarp(bool), Together(), Between(); Ending():
// the block waits for nothing more in this kernel.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/protocol/ll_line_device.h"
#include "runtime/cuda/protocol/ll_tile_device.h"

namespace gordian::runtime::cuda {

enum class StepResult : uint8_t { kAdvanced, kNotReady, kDone };

// Carries a channel to its end and returns true. `state`: the channel's; its load may still be
// under way. After `polls` looks in vain all threads call stall(), which returns how many looks
// follow before the next call; if it returns 0, RunLines returns false with the operation
// unfinished.
template <typename T, uint32_t kRanks, typename Way, typename Block, typename Stall>
GRT_HD inline bool RunLines(Block& b, const Work& w, uint32_t channel, const ChannelState& state,
                            uint32_t polls, Stall&& stall) {
  // Issue independent loads first and use them later: a thread that uses a loaded value waits for
  // it before it issues the next load, and each such wait is a tenth of the smallest operations'
  // time.
  const uint32_t failed =
      b.Thread() == 0 ? Load<kSystem, kRelaxed>(&HeaderAt(w, w.rank)->failed) : 0;
  Credits credits = LoadCredits(b, w, channel);
  Lines lines = RangeOf<Way::kBytes>(w, channel);
  typename Way::template Ahead<kRanks> ahead;
  Way::template Load<kRanks>(b, w, lines, &ahead);
  const uint32_t carried = state.lines;
  Number(w, carried, &lines);
  TellConsumed(b, w, channel, carried);
  TellDoing(b, w, channel, state.lines + state.bulks + 1);
  for (uint32_t tries = 1;; ++tries) {
    if (b.All(failed == kNoFailure && Suffices(b, w, credits, carried))) break;
    credits = LoadCredits(b, w, channel);
    if (tries < polls) continue;
    tries = 0;
    polls = stall();
    if (polls == 0) return false;
  }
  SendScalar(b, w, channel, lines);
  Way::template Send<kRanks>(b, w, channel, lines, ahead);
  // Check what the members did last while the data is on its way: that check depends on the
  // channel's state.
  const bool agreed = Agreed(b, w, channel, state);
  const bool sums = (w.flags & kTwoPhase) != 0;
  bool second = false;
  for (uint32_t l = Way::First(b);;) {
    bool arrived = true;
    while (arrived && !second) {
      if (l >= lines.count) {
        second = true;
        l = Way::First(b);
      } else {
        arrived = Way::template Take<T, kRanks>(b, w, channel, lines, l, polls);
        if (arrived) l += Way::Stride(b);
      }
    }
    while (sums && arrived && l < lines.count) {
      arrived = Way::template TakeSum<kRanks>(b, w, channel, lines, l, polls);
      if (arrived) l += Way::Stride(b);
    }
    if (b.All(arrived & agreed)) break;
    polls = stall();
    if (polls == 0) return false;  // also if the members did not agree
  }
  b.Ending();
  FinishLines(b, w, channel, carried);
  return true;
}

// Makes one step. pc: 0 send, 1 first phase, 2 second phase.
template <typename T, typename Way, typename Block>
GRT_APART GRT_HD StepResult StepLinesBy(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  const ChannelState state = *StateAt(w, channel);
  const uint32_t carried = state.lines;
  Lines lines = RangeOf<Way::kBytes>(w, channel);
  Number(w, carried, &lines);
  bool ready = true;
  if (*pc == 0) {
    TellConsumed(b, w, channel, carried);
    TellDoing(b, w, channel, state.lines + state.bulks + 1);
    ready = MayBegin(b, w, channel, state);
    ready = Suffices(b, w, LoadCredits(b, w, channel), carried) && ready;
    if (!b.All(ready)) return StepResult::kNotReady;
    typename Way::template Ahead<kMaxRanks> ahead;
    Way::template Load<kMaxRanks>(b, w, lines, &ahead);
    SendScalar(b, w, channel, lines);
    Way::template Send<kMaxRanks>(b, w, channel, lines, ahead);
    *pc = 1;
    return StepResult::kAdvanced;
  }
  const uint32_t phase = *pc - 1;
  for (uint32_t l = Way::First(b); ready && l < lines.count; l += Way::Stride(b)) {
    ready = Way::Arrived(b, w, channel, lines, phase, l);
  }
  if constexpr (std::is_same_v<T, AnyType>) {
    uint64_t scalars[kMaxRanks];
    if (phase == 0 && IsPreMultiplied(w) && !TakeScalars(w, channel, lines, scalars)) ready = false;
  }
  if (!b.All(ready)) return StepResult::kNotReady;
  for (uint32_t l = Way::First(b); l < lines.count; l += Way::Stride(b)) {
    if (phase == 0) {
      Way::template Take<T, kMaxRanks>(b, w, channel, lines, l, 0);
    } else {
      Way::template TakeSum<kMaxRanks>(b, w, channel, lines, l, 0);
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

template <typename T, typename Block>
GRT_HD inline StepResult StepLines(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  if ((w.flags & kTiles) != 0) return StepLinesBy<T, TileWay>(b, w, channel, pc);
  return StepLinesBy<T, LineWay>(b, w, channel, pc);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_DEVICE_H_
