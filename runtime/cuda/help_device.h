// Helping: what a stalled kernel does while its own operation cannot go on. The host publishes the
// operations that follow on the stream, as soon as they are called and if the stream carries nothing else;
// a stalled block runs steps of those that can run. Preemption is this and nothing more: no operation waits
// for another but by its own data.
//
// Who may run a channel: one block at a time, by a claim. The claim word also keeps the channel's step
// counter between two blocks, so the next one goes on where the last one stopped: a block that serves an
// operation and leaves, or the operation's own kernel when its turn comes. Words are tagged with the
// operation's number, so that the ring needs no clearing.
//
// Operations of one order key (a port, or one direction of a pair) are carried in order: an operation is
// served only when all before it with its key are done.
//
// One resident block suffices for progress: channels are served by whoever has time, in turns.
//
// Thread rule: all threads of a block call together.
#ifndef GORDIAN_RUNTIME_CUDA_HELP_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_HELP_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/bulk_device.h"
#include "runtime/cuda/ll_device.h"
#include "runtime/cuda/work.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kHelpEntries = 1024;
inline constexpr uint32_t kHelpKeys = 64;  // order keys that one walk tells apart

// What the device has last seen of the host's words, in its own memory. A word of the host that a hundred
// stalled blocks read takes one read over PCIe after another, and the last of them waits for all: so one
// block looks, at most every kLookEvery, and the others read here. Any block may be the one, since any
// may leave; two that look at once may leave the older view behind, for as long as until the next look.
struct alignas(16) Seen {
  uint64_t looked;     // when, in nanoseconds
  uint64_t published;  // the list's tail | its keys
  uint32_t stop;       // only ever set
  uint32_t unused[3];
};
inline constexpr int64_t kLookEvery = 10000;  // nanoseconds

// What a kernel knows of its stream. Host words are in mapped memory, read when stalled only.
struct HelpList {
  const Work* entries;      // ring of kHelpEntries in host memory
  const uint32_t* tail;     // number of the next entry to be published; host memory
  const uint32_t* keys;     // order keys in use on this stream; host memory
  const uint32_t* stop;     // not 0: leave, unfinished; host memory
  uint64_t* claims;         // kHelpEntries * kMaxChannels, in the device's memory
  Seen* seen;               // the device's copy of the three; of one list, or shared by those without
  uint32_t* helped;         // operations' channels finished for others; may be read at any time
  uint32_t* begun;          // number + 1 of the last operation whose kernel has begun; host memory
  uint32_t id;              // the own operation's number, if it is listed
  uint32_t listed;          // whether there is a list
  char* renamed;            // where helpers write the own operation's output; null: to its output
};

// A claim word: number + 1 | step counter | taken. A word of another number stands for "not begun".
inline constexpr uint32_t kStepsDone = 0x7fffffff;
GRT_HD inline uint64_t ClaimWord(uint32_t id, uint32_t pc, bool taken) {
  return uint64_t{id + 1} << 32 | uint64_t{pc} << 1 | (taken ? 1 : 0);
}
GRT_HD inline uint32_t StepsOf(uint64_t word, uint32_t id) {
  return static_cast<uint32_t>(word >> 32) == id + 1 ? static_cast<uint32_t>(word) >> 1 : 0;
}
GRT_HD inline bool IsTaken(uint64_t word, uint32_t id) {
  return static_cast<uint32_t>(word >> 32) == id + 1 && (word & 1) != 0;
}
GRT_HD inline uint64_t* ClaimAt(const HelpList& h, uint32_t id, uint32_t channel) {
  return h.claims + (id % kHelpEntries) * kMaxChannels + channel;
}

// One step of any operation, of whatever type. Written once per kind of block: it is large.
template <typename Block>
GRT_HD StepResult StepAny(Block& b, const Work& w, uint32_t channel, uint32_t* pc);

// Once along the list. `round` counts the calls of a block: channels are served in turns. False: leave.
template <typename Block>
GRT_HD bool HelpOnce(Block& b, const HelpList& h, const Work& own, uint32_t round);

// The rest of a channel that a helper has begun, from step `pc` on, of an operation whose output helpers write
// elsewhere; then what the channel has of the output goes where it belongs. `round` as HelpOnce's.
template <typename Block>
GRT_HD void FinishRenamed(Block& b, const Work& w, const HelpList& h, uint32_t pc);

template <typename Block>
GRT_HD inline StepResult StepAnyInline(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  if ((w.flags & kBulk) == 0) return StepLines<AnyType>(b, w, channel, pc);
  Bulk bulk = BulkOf(w, channel);
  const StepResult result = StepBulk<AnyType, kMaxRanks>(b, w, channel, &bulk, pc);
  AnnounceScattered(b, w, channel, &bulk);  // whose the next step is, nobody knows
  return result;
}

// By one thread: reads over PCIe whether the host has given the operation's communicator up, and tells all
// members' kernels.
GRT_HD inline void TakeHostFailure(const Work& w) {
  if (w.failed == nullptr) return;
  uint32_t failed = LoadHostWord(w.failed);
  if (failed == kPeerGone) failed = kFailedPeer;
  for (uint32_t p = 0; failed != kNoFailure && p < w.ranks; ++p) StoreRelaxed(&HeaderAt(w, p)->failed, failed);
}

// By one thread: has a look at the host's words if it is time and nobody else does. `own`: the block's own
// operation, whose communicator the host may have given up.
GRT_HD inline void LookAtHost(const HelpList& h, const Work& own, uint64_t now) {
  const uint64_t last = LoadWordAcquire(&h.seen->looked);
  if (static_cast<int64_t>(now - last) < kLookEvery || !CompareAndSwap(&h.seen->looked, last, now)) return;
  if (LoadHostWord(h.stop) != 0) StoreRelaxed(&h.seen->stop, 1);
  TakeHostFailure(own);
  if (h.listed == 0) return;
  const uint32_t tail = LoadHostWord(h.tail);
  const uint32_t keys = LoadHostWord(h.keys);  // set before the tail: counts all keys up to there
  StoreWordRelease(&h.seen->published, uint64_t{tail} << 32 | keys);
}

// For an operation that does not go on: whether its communicator has failed, which the host is told. Another
// member that is, or last was, at another operation of the same number is such a failure, and all members
// are told.
template <typename Block>
GRT_HD inline bool HasFailed(Block& b, const Work& w, uint32_t channel) {
  const ChannelState* state = StateAt(w, channel);
  const uint32_t number = state->lines + state->bulks + 1;
  bool disagrees = false;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    disagrees = disagrees || Disagrees(w, channel, number, w.signature, p) ||
                Disagrees(w, channel, number - 1, state->signature, p);
  }
  disagrees = b.Any(disagrees);
  uint32_t failed = 0;
  if (b.Thread() == 0) {
    failed = LoadRelaxed(&HeaderAt(w, w.rank)->failed);
    if (disagrees && failed == kNoFailure) {
      failed = kFailedMismatch;
      for (uint32_t p = 0; p < w.ranks; ++p) StoreRelaxed(&HeaderAt(w, p)->failed, failed);
    }
    if (failed != kNoFailure && w.failed != nullptr) StoreRelaxed(w.failed, failed);
  }
  return b.Broadcast(failed) != 0;
}

// Runs a channel of a published operation as far as it goes now.
template <typename Block>
GRT_HD inline void Serve(Block& b, const HelpList& h, const Work& w, uint32_t id, uint32_t channel) {
  uint64_t* claim = ClaimAt(h, id, channel);
  uint32_t pc = kStepsDone;
  if (b.Thread() == 0) {
    const uint64_t word = LoadWordAcquire(claim);
    const uint32_t steps = StepsOf(word, id);
    if (steps != kStepsDone && !IsTaken(word, id) &&
        CompareAndSwap(claim, word, ClaimWord(id, steps, true))) {
      pc = steps;
    }
  }
  pc = b.Broadcast(pc);
  if (pc == kStepsDone) return;
  StepResult result;
  do {
    result = StepAny(b, w, channel, &pc);
  } while (result == StepResult::kAdvanced);
  if (result == StepResult::kNotReady) {
    // Whether or not it has: its own kernel leaves when its turn comes.
    [[maybe_unused]] const bool failed = HasFailed(b, w, channel);
  }
  b.Sync();  // the step's stores by all threads come before the word
  if (b.Thread() == 0) {
    const bool done = result == StepResult::kDone;
    if (done) AddRelaxed(h.helped, 1);
    StoreWordRelease(claim, ClaimWord(id, done ? kStepsDone : pc, false));
  }
}

template <typename Block>
GRT_HD inline bool HelpOnceInline(Block& b, const HelpList& h, const Work& own, uint32_t round) {
  if (HasFailed(b, own, b.Index())) return false;
  uint32_t stop = 0;
  uint64_t published = 0;
  if (b.Thread() == 0) {
    LookAtHost(h, own, b.Now());
    stop = LoadRelaxed(&h.seen->stop);
    if (h.listed != 0) published = LoadWordAcquire(&h.seen->published);
  }
  if (b.Broadcast(stop) != 0) return false;
  if (h.listed == 0) return true;
  const uint32_t tail = b.Broadcast(static_cast<uint32_t>(published >> 32));
  // What was seen before this operation was published says nothing of what follows it.
  if (static_cast<int32_t>(tail - (h.id + 1)) <= 0) return true;
  const uint32_t keys = b.Broadcast(static_cast<uint32_t>(published));
  uint32_t unfinished_keys = 1;
  if (b.Thread() == 0) b.Keys()[0] = own.order_key;
  b.Sync();
  for (uint32_t id = h.id + 1; id != tail; ++id) {
    // Nothing behind can be served once every key has an unfinished operation.
    if (unfinished_keys >= keys || unfinished_keys == kHelpKeys) break;
    const Work& w = b.Fetch(h.entries + id % kHelpEntries);
    if ((w.flags & kBarrier) != 0) break;
    bool blocked = false;
    for (uint32_t k = 0; k < unfinished_keys; ++k) blocked = blocked || b.Keys()[k] == w.order_key;
    bool unfinished = false;
    if (!blocked) {
      for (uint32_t c = b.Thread(); c < w.channels; c += b.Threads()) {
        if (StepsOf(LoadWordAcquire(ClaimAt(h, id, c)), id) != kStepsDone) unfinished = true;
      }
    }
    if (b.Any(unfinished)) {  // a barrier too: keys and entry have been read
      if (b.Thread() == 0) b.Keys()[unfinished_keys] = w.order_key;
      ++unfinished_keys;
      for (uint32_t c = (b.Index() + round) % b.Blocks(); c < w.channels; c += b.Blocks()) {
        Serve(b, h, w, id, c);
      }
      b.Sync();
    }
  }
  return true;
}

// Blocks of the output, and where one begins.
GRT_HD inline uint32_t OutputBlocks(const Work& w) { return w.out_stride == 0 ? 1 : w.ranks; }

template <typename Block>
GRT_HD inline void FinishRenamedInline(Block& b, const Work& w, const HelpList& h, uint32_t pc) {
  const uint32_t channel = b.Index();
  Work& own = b.Own();
  b.Sync();
  if (b.Thread() == 0) {
    own = w;
    own.out = h.renamed;
    own.offered = 0;
  }
  b.Sync();
  uint32_t round = 0;
  while (pc != kStepsDone) {
    const StepResult result = StepAny(b, own, channel, &pc);
    if (result == StepResult::kDone) break;
    if (result == StepResult::kNotReady && !HelpOnce(b, h, own, round++)) return;
  }
  b.Sync();  // all threads' stores of the last step
  if (w.out == nullptr) return;
  const uint64_t part = (w.flags & kBulk) != 0 ? w.part : uint64_t{w.part} * 8;
  for (uint32_t p = 0; p < OutputBlocks(w); ++p) {
    const uint64_t begin = Least(part * channel, BlockBytes(w, p));
    const uint64_t end = Least(begin + part, BlockBytes(w, p));
    const uint64_t at = p * w.out_stride + begin;
    CopyChunk<false>(b, w.out + at, h.renamed + at, end - begin);
  }
}

// What a block of the operation's own kernel does, from its start to its end.
// kRanks as in ll_device.h.
template <typename T, bool kIsBulk, uint32_t kRanks, typename Block>
GRT_HD inline void Carry(Block& b, const Work& w, const HelpList& h) {
  const uint32_t channel = b.Index();
  uint32_t round = 0;
  const auto stall = [&] { return HelpOnce(b, h, w, round++); };
  uint32_t pc = 0;
  if (h.listed != 0) {
    // All before it on the stream is done: the kernel boundary.
    if (channel == 0 && b.Thread() == 0) StoreRelaxed(h.begun, h.id + 1);
    // Nobody else writes the word now: whoever helped ran in kernels before this one.
    const uint64_t word = LoadWordAcquire(ClaimAt(h, h.id, channel));
    pc = StepsOf(word, h.id);
    // Also if no step was made: what the first one tells the peers may have been told.
    if (h.renamed != nullptr && static_cast<uint32_t>(word >> 32) == h.id + 1) {
      FinishRenamed(b, w, h, pc);
      return;
    }
    if (pc == kStepsDone) return;
  }
  constexpr uint32_t kFruitless = 32;
  uint32_t tries = 0;
  if constexpr (!kIsBulk) {
    if (pc == 0) {
      RunLines<T, kRanks>(b, w, channel, stall);
      return;
    }
    for (;;) {  // a helper has begun it
      const StepResult result = StepAny(b, w, channel, &pc);
      if (result == StepResult::kDone) return;
      if (result == StepResult::kNotReady && ++tries % kFruitless == 0 && !stall()) return;
    }
  } else {
    Bulk bulk = BulkOf(w, channel);  // nobody else has the channel: it stays so while others are helped
    for (;;) {
      const StepResult result = StepBulk<T, kRanks>(b, w, channel, &bulk, &pc);
      if (result == StepResult::kDone) return;
      if (result == StepResult::kNotReady && ++tries % kFruitless == 0 && !stall()) return;
    }
  }
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_HELP_DEVICE_H_
