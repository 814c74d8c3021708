// A daemon as DFCCL's (EuroSys '25), over this runtime's operations, memory and steps, so that each
// of its decisions can be priced by itself. What is taken from it, each by an option:
//
//   submission   every block reads every submission from pinned host memory, and keeps a queue of
//   its own;
//                it fetches only when it is idle or a whole pass was in vain (FIFO)
//   stickiness   how long a block spins on an operation that is not ready: a fixed number of tries
//   (naive), or
//                many at the queue's head, fewer behind it, and more after success (adaptive); or
//                one (ready)
//   completion   the three completion queues in pinned host memory, which a thread of the host
//   polls; or a
//                word for each operation, as the resident worker does
//   bulk         along a ring in staged chunks, for every size; or the runtime's own ways
//
// What is not as DFCCL's: it quits by core/life.h, not block by block, and after a time, not after
// a number of fruitless tries; a channel belongs to block (channel mod blocks), where DFCCL has a
// block for each; what is known of an operation beforehand travels with its submission (as many
// reads over PCIe: one, by many threads).
//
// Thread rule: as worker_device.h.
#ifndef GORDIAN_BENCH_RUNTIME_DFCCL_DEVICE_H_
#define GORDIAN_BENCH_RUNTIME_DFCCL_DEVICE_H_

#include <cstdint>

#include "bench/runtime/ring_device.h"
#include "runtime/cuda/worker/worker_device.h"

namespace gordian::runtime::cuda {

enum class Stickiness : uint8_t { kNaive, kAdaptive, kReady };
enum class Completion : uint8_t { kVanillaRing, kPackedRing, kSlots, kWord };

struct DfcclOptions {
  Stickiness stickiness = Stickiness::kAdaptive;
  uint32_t naive_spins = 10000;
  SpinParameters adaptive;  // 100,000 and 20
  Completion completion = Completion::kSlots;
  bool ring = true;
};

inline constexpr uint32_t kDfcclBlocks = 32;  // at most
inline constexpr uint32_t kCompletionRing = 1024;
inline constexpr uint32_t kCompletionSlots = 8;

// Completions, in mapped host memory.
struct CompletionQueue {
  alignas(128) uint32_t head;  // by the host
  alignas(128) uint32_t tail;  // by the device
  uint32_t unused;
  alignas(128) uint32_t ring[kCompletionRing];    // number + 1
  alignas(128) uint64_t packed[kCompletionRing];  // position + 1 << 32 | number + 1
  alignas(128) uint64_t slots[kCompletionSlots];  // count << 32 | number + 1; 0: free
};

// In the device's memory; zero at first.
struct DfcclDevice {
  struct Queue {
    uint64_t fetched;  // of the host's word
    uint32_t count;
    uint32_t unused;
    uint32_t ids[kDetachedEntries];
  };
  Queue queues[kDfcclBlocks];
  uint64_t lock;         // of the completion ring
  uint32_t completions;  // that blocks reported to the host
  // Nanoseconds, and how often.
  uint32_t fetch_ns, fetches, prepare_ns, prepares, complete_ns, completes;
  uint32_t preemptions;  // operations that a block left unfinished
};

struct DfcclView {
  WorkerView worker;
  DfcclOptions options;
  CompletionQueue* completions;
  DfcclDevice* device;
};

// By one thread: tells the host that an operation is done. What it wrote comes first in all
// variants.
GRT_HD inline void TellCompletion(const DfcclView& v, uint32_t id) {
  CompletionQueue* q = v.completions;
  Fence<kSystem>();
  if (v.options.completion == Completion::kWord) {
    StoreEnd(v.worker.host, id,
             Load<kSystem, kRelaxed>(&v.worker.device->entries[id % kDetachedEntries].ticket));
    return;
  }
  if (v.options.completion == Completion::kSlots) {
    // The count keeps the host from taking a stale word for a new one.
    const uint64_t word =
        uint64_t{Load<kSystem, kRelaxed>(&v.device->completions) + 1} << 32 | (id + 1);
    Add<kDevice, kRelaxed>(&v.device->completions, 1);
    for (uint32_t slot = id;; ++slot) {
      if (CompareAndSwap<kSystem, kRelaxed>(&q->slots[slot % kCompletionSlots], 0, word)) return;
    }
  }
  while (!CompareAndSwap<kDevice, kAcquireRelease>(&v.device->lock, 0, 1)) {
  }
  const uint32_t tail = Load<kSystem, kAcquire>(&q->tail);
  while (tail - Load<kSystem, kAcquire>(&q->head) >= kCompletionRing) {
  }
  if (v.options.completion == Completion::kVanillaRing) {
    Store<kSystem, kRelaxed>(&q->ring[tail % kCompletionRing], id + 1);
    Fence<kSystem>();
  } else {
    Store<kSystem, kRelaxed>(&q->packed[tail % kCompletionRing],
                             uint64_t{tail + 1} << 32 | (id + 1));
  }
  Store<kSystem, kRelaxed>(&q->tail, tail + 1);
  Store<kDevice, kRelease>(&v.device->lock, 0);
}

// Thread 0 calls this when a channel is done. The first channel of an operation to be done sets the
// count; true for the last one.
GRT_HD inline bool CountDown(const WorkerView& v, uint32_t id, uint32_t channels) {
  uint64_t* left = &v.device->left[id % kDetachedEntries];
  uint64_t word, next;
  do {
    word = Load<kDevice, kAcquire>(left);
    next = static_cast<uint32_t>(word >> 32) == id + 1 ? word - 1
                                                       : LeftWord(id, channels, channels - 1);
  } while (!CompareAndSwap<kDevice, kAcquireRelease>(left, word, next));
  return (next & 0xffff) == 0;
}

// As RunChannelOf, along the ring where it is asked for.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline StepResult RunDfccl(Block& b, const Work& w, uint32_t channel, uint32_t* pc,
                                  const DfcclView& v, uint64_t spins) {
  const bool is_bulk = (w.flags & kBulk) != 0;
  const bool ring = is_bulk && v.options.ring && w.kind == OpKind::kAllReduce;
  Bulk bulk{};
  if (is_bulk) bulk = BulkOf(w, channel);
  for (uint64_t tries = 0;;) {
    const StepResult result = ring      ? StepRing<T>(b, w, channel, bulk, pc)
                              : is_bulk ? StepBulk<T, kRanks>(b, w, channel, &bulk, pc)
                                        : StepLines<T>(b, w, channel, pc);
    if (result == StepResult::kNotReady) {
      if (++tries >= spins) return result;
      continue;
    }
    if (result != StepResult::kAdvanced) return result;
    if (v.options.stickiness == Stickiness::kAdaptive)
      spins = SpinsAfterSuccess(v.options.adaptive, spins, tries);
    tries = 0;
  }
}

// By type; once for each kind of block.
template <typename Block>
GRT_HD StepResult RunDfcclAny(Block& b, const Work& w, uint32_t channel, uint32_t* pc,
                              const DfcclView& v, uint64_t spins);

// One pass of a block over its queue. `count` and `ids` are its own, in the block's memory. Whether
// anything went on.
template <typename Block>
GRT_HD inline bool DfcclPass(Block& b, const DfcclView& v, uint32_t* ids, uint32_t* count) {
  const WorkerView& worker = v.worker;
  bool any = false;
  uint32_t kept = 0;
  for (uint32_t position = 0; position < *count; ++position) {
    const uint32_t id = ids[position];
    // Operations of one port are carried in their order: behind an unfinished one it has to wait.
    const uint32_t port =
        Load<kSystem, kRelaxed>(&worker.device->entries[id % kDetachedEntries].port);
    bool waits = false;
    for (uint32_t k = b.Thread(); k < kept; k += b.Threads()) {
      waits = waits || Load<kSystem, kRelaxed>(
                           &worker.device->entries[ids[k] % kDetachedEntries].port) == port;
    }
    if (b.Any(waits)) {
      if (b.Thread() == 0) ids[kept] = id;
      ++kept;
      b.Sync();
      continue;
    }
    const uint64_t begun = b.Now();
    Compose(b, worker, id);
    const Work& w = b.Entry();
    if (b.Thread() == 0) {
      Add<kDevice, kRelaxed>(&v.device->prepare_ns, static_cast<uint32_t>(b.Now() - begun));
      Add<kDevice, kRelaxed>(&v.device->prepares, 1);
    }
    uint64_t spins = v.options.stickiness == Stickiness::kNaive ? v.options.naive_spins
                     : v.options.stickiness == Stickiness::kAdaptive
                         ? SpinsAt(v.options.adaptive, position)
                         : 1;
    bool unfinished = false;
    for (uint32_t channel = b.Index(); channel < w.channels; channel += b.Blocks()) {
      uint64_t* context = worker.device->claims + (id % kDetachedEntries) * kMaxChannels + channel;
      uint32_t pc = 0;
      if (b.Thread() == 0) pc = StepsOf(Load<kDevice, kAcquire>(context), id);
      pc = b.Broadcast(pc);
      if (pc == kStepsDone) continue;
      const uint32_t before = pc;
      const StepResult result = RunDfcclAny(b, w, channel, &pc, v, spins);
      const bool done = result != StepResult::kNotReady;
      any = any || done || pc != before;
      unfinished = unfinished || !done;
      b.Sync();
      if (b.Thread() == 0) {
        if (done || pc != before) Add<kDevice, kRelaxed>(&worker.device->progress, 1);
        if (!done) Add<kDevice, kRelaxed>(&v.device->preemptions, 1);
        Store<kDevice, kRelease>(context, ClaimWord(id, done ? kStepsDone : pc, false));
        if (done && CountDown(worker, id, w.channels)) {
          const uint64_t telling = b.Now();
          TellCompletion(v, id);
          Add<kDevice, kRelaxed>(&v.device->complete_ns, static_cast<uint32_t>(b.Now() - telling));
          Add<kDevice, kRelaxed>(&v.device->completes, 1);
        }
      }
    }
    b.Sync();
    if (unfinished) {
      if (b.Thread() == 0) ids[kept] = id;
      ++kept;
    }
    b.Sync();
  }
  *count = kept;
  return any;
}

// What a block does, from its start to its end. `ids`: kDetachedEntries words of the block's
// memory.
template <typename Block>
GRT_HD inline void BeDfccl(Block& b, const DfcclView& v, uint32_t* ids) {
  const WorkerView& worker = v.worker;
  int32_t number = 0;
  if (b.Thread() == 0) number = Enter(worker);
  number = static_cast<int32_t>(b.Broadcast(static_cast<uint32_t>(number)));
  if (number < 0) return;
  const bool leads = number == 0;
  Leader leader;
  if (leads && b.Thread() == 0) {
    Store<kDevice, kRelease>(&worker.device->arrived, uint64_t{worker.instance} << 32);
    Store<kSystem, kRelaxed>(&worker.host->life, kRunning);
    Fence<kSystem, kSequential>();
    leader.started = leader.quiet_since = b.Now();
    leader.progress = Load<kSystem, kRelaxed>(&worker.device->progress);
  }
  DfcclDevice::Queue& saved = v.device->queues[b.Index()];
  uint64_t fetched = saved.fetched;
  uint32_t count = saved.count;
  for (uint32_t i = b.Thread(); i < count; i += b.Threads()) ids[i] = saved.ids[i];
  b.Sync();
  bool went_on = false;
  for (;;) {
    if (count == 0 || !went_on) {
      const uint64_t begun = b.Now();
      uint64_t published = 0;
      if (b.Thread() == 0) published = Load<kSystem, kAcquire>(&worker.host->published);
      const uint32_t tail = b.Broadcast(static_cast<uint32_t>(published));
      const uint32_t ports = b.Broadcast(static_cast<uint32_t>(published >> 32));
      const auto first = static_cast<uint32_t>(fetched);
      if (tail != first) {
        CopyIn(b, worker, fetched, uint64_t{ports} << 32 | tail);
        for (uint32_t id = first + b.Thread(); static_cast<int32_t>(tail - id) > 0;
             id += b.Threads()) {
          ids[count + (id - first)] = id;
        }
        count += tail - first;
        fetched = uint64_t{ports} << 32 | tail;
        b.Sync();
        if (b.Thread() == 0) {
          Add<kDevice, kRelaxed>(&v.device->fetch_ns, static_cast<uint32_t>(b.Now() - begun));
          Add<kDevice, kRelaxed>(&v.device->fetches, tail - first);
        }
      }
    }
    uint32_t over = 0;
    if (b.Thread() == 0) {
      if (!leads) {
        over = (Load<kDevice, kRelaxed>(&worker.device->admission) & kInstanceClosed) != 0 ? 1 : 0;
      } else {
        const uint64_t now = b.Now();
        const uint32_t progress = Load<kSystem, kRelaxed>(&worker.device->progress);
        if (progress != leader.progress) leader.quiet_since = now;
        leader.progress = progress;
        leader.published = fetched;
        const bool must = Load<kSystem, kAcquire>(worker.stop) != 0 ||
                          Load<kSystem, kAcquire>(&worker.host->ask) != 0;
        const int64_t patience = count == 0 ? worker.idle_ns : worker.stuck_ns;
        if (must || static_cast<int64_t>(now - leader.quiet_since) >= patience) {
          over = Quit(b, worker, leader, must) ? 1 : 0;
          leader.quiet_since = now;
        }
      }
    }
    if (b.Broadcast(over) != 0) break;
    went_on = DfcclPass(b, v, ids, &count);
    if (!went_on) b.Rest();
  }
  // The leader does so behind kDown: the next instance begins behind this kernel's end.
  for (uint32_t i = b.Thread(); i < count; i += b.Threads()) saved.ids[i] = ids[i];
  b.Sync();
  if (b.Thread() != 0) return;
  saved.fetched = fetched;
  saved.count = count;
  if (leads) return;
  uint64_t word;
  do {
    word = Load<kDevice, kAcquire>(&worker.device->arrived);
  } while (!CompareAndSwap<kDevice, kAcquireRelease>(&worker.device->arrived, word, word + 1));
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_BENCH_RUNTIME_DFCCL_DEVICE_H_
