// LL: every 8 bytes travel beside their flags, so that data and notice are one store and one hop. One-shot:
// what a rank needs arrives whole. Two-shot (all-reduce): shards arrive, are combined, and sums go out.
//
// RunLines is the fast way, for the operation's own block: it keeps its place in registers while it waits.
// StepLines is the same wire protocol as run-to-completion steps with a counter as its only state, for
// blocks that help. Each step looks before it writes: whoever repeats a step that was not ready finds
// inputs and outputs untouched, in place too.
//
// A line of another operation than this rank's never arrives: its flags have the signature in them.
//
// Thread rule: all threads of a block call together with equal arguments; a channel belongs to one block
// at a time. kRanks: at least the number of ranks. Block: Thread(), Threads(), Sync(), All(bool), Targets();
// Ending(): no wait follows in this kernel.
#ifndef GORDIAN_RUNTIME_CUDA_LL_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_LL_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/ll_line_device.h"

namespace gordian::runtime::cuda {

enum class StepResult : uint8_t { kAdvanced, kNotReady, kDone };

// Carries a channel to its end. stall() is called by all threads when a while has passed in vain; false from
// it ends the operation here, unfinished. Returns whether it was finished.
template <typename T, uint32_t kRanks, typename Block, typename Stall>
GRT_HD inline bool RunLines(Block& b, const Work& w, uint32_t channel, Stall&& stall) {
  constexpr uint32_t kPolls = 100;  // some 50 us
  // Loads that hang on nothing come first and are looked at later: a thread that looks at one waits for it before it
  // sends the next on its way, and each such wait is a tenth of what the smallest operations take.
  const uint32_t failed = b.Thread() == 0 ? LoadRelaxed(&HeaderAt(w, w.rank)->failed) : 0;
  Credits credits = LoadCredits(b, w, channel);
  Lines lines = RangeOf(w, channel);
  uint64_t loaded = 0;
  if (SendsSame(w) && b.Thread() < lines.count) {
    const uint64_t line = lines.first + b.Thread();
    loaded = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
  }
  const ChannelState state = *StateAt(w, channel);
  const uint32_t carried = state.lines;
  Number(w, carried, &lines);
  TellConsumed(b, w, channel, carried);
  TellDoing(b, w, channel, state.lines + state.bulks + 1);
  for (uint32_t tries = 1;; ++tries) {
    if (b.All(failed == kNoFailure && Suffices(b, w, credits, carried))) break;
    credits = LoadCredits(b, w, channel);
    if (tries % kPolls == 0 && !stall()) return false;
  }
  SendScalar(b, w, channel, lines);
  SendLines<kRanks>(b, w, channel, lines, loaded);
  // What members did last hangs on the channel's state: it is looked at while the data is awaited.
  const bool agreed = Agreed(b, w, channel, state);
  const bool sums = (w.flags & kTwoPhase) != 0;
  bool second = false;
  for (uint32_t l = b.Thread();;) {
    bool arrived = true;
    while (arrived && !second) {
      if (l >= lines.count) {
        second = true;
        l = b.Thread();
      } else {
        arrived = TakeLine<T, kRanks>(w, channel, lines, l, kPolls);
        if (arrived) l += b.Threads();
      }
    }
    while (sums && arrived && l < lines.count) {
      arrived = TakeSum<kRanks>(w, channel, lines, l, kPolls);
      if (arrived) l += b.Threads();
    }
    if (b.All(arrived & agreed)) break;
    if (!stall()) return false;  // as it does when the members did not agree
  }
  b.Ending();
  FinishLines(b, w, channel, carried);
  return true;
}

// One step. pc: 0 send, 1 first phase, 2 second phase.
template <typename T, typename Block>
GRT_HD inline StepResult StepLines(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  const ChannelState state = *StateAt(w, channel);
  const uint32_t carried = state.lines;
  Lines lines = RangeOf(w, channel);
  Number(w, carried, &lines);
  bool ready = true;
  if (*pc == 0) {
    TellConsumed(b, w, channel, carried);
    TellDoing(b, w, channel, state.lines + state.bulks + 1);
    ready = MayBegin(b, w, channel, state);
    ready = Suffices(b, w, LoadCredits(b, w, channel), carried) && ready;
    if (!b.All(ready)) return StepResult::kNotReady;
    uint64_t loaded = 0;
    if (SendsSame(w) && b.Thread() < lines.count) {
      const uint64_t line = lines.first + b.Thread();
      loaded = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
    }
    SendScalar(b, w, channel, lines);
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
      if (!LoadLine(LaneAt(w, w.rank, channel, lines.slot, phase, p) + l, lines.flags, &word)) ready = false;
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
