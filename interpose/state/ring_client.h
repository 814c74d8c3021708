// Publishes records and the state of the calling thread. Nothing here blocks, allocates, locks or
// makes a system call. Every function takes the calling thread's own context: one writer per ring.
#ifndef GORDIAN_INTERPOSE_STATE_RING_CLIENT_H_
#define GORDIAN_INTERPOSE_STATE_RING_CLIENT_H_

#include <time.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

inline uint64_t ReadClock([[maybe_unused]] bool tsc) {
#if defined(__x86_64__)
  if (__builtin_expect(tsc, 1)) return __builtin_ia32_rdtsc();
#endif
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t ReadTicks(ThreadContext& thread) {
  thread.recent_reads = 0;
  return thread.ticks = ReadClock(thread.tsc);
}

// The latest time that the watcher or this thread has read, for records whose time no rule uses
// (record.h). Reads the clock if there is no watcher, and now and then in case the driver holds the
// watcher up.
inline uint64_t RecentTicks(ThreadContext& thread) {
  constexpr uint32_t kReadsInARow = 64;
  const uint64_t watched = thread.process->watcher_ticks.load(std::memory_order_relaxed);
  if (__builtin_expect(watched == 0 || ++thread.recent_reads == kReadsInARow, 0)) {
    return ReadTicks(thread);
  }
  if (watched > thread.ticks) thread.ticks = watched;
  return thread.ticks;
}

// The line of memory is about to be written: owned from here on, not merely read. (A processor that
// does not know the instruction takes it for a no-op, as x86-64 demands.)
inline void PrefetchToWrite(const void* address) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// Record::order. Taken for lost records too: the state block refers to it.
inline uint64_t NextOrder(ThreadContext& thread) {
  return Shared(thread.header->order).fetch_add(1, std::memory_order_relaxed) + 1;
}

// Reads how far the collector has got. Returns false, and counts a loss, while the collector still
// has `most` records to read.
bool MakeRoom(ThreadContext& thread, uint64_t most);

// kNever is for what a verdict is made of; work on streams gives way to it in a ring that fills up.
enum class GivesWay { kNever, kFirst };

// The next free slot with its common fields filled in, or null when the ring is full (the loss is
// counted then). The caller writes one member of the payload, all 32 bytes, and calls FinishRecord.
template <GivesWay kGivesWay = GivesWay::kNever>
inline ring::Record* StartRecord(ThreadContext& thread, ring::RecordKind kind, CallId call,
                                 uint8_t flags, uint64_t order, uint64_t ticks, uint64_t site) {
  const uint64_t most = kGivesWay == GivesWay::kFirst ? thread.work_slots : thread.ring_slots;
  if (__builtin_expect(thread.head - thread.cached_tail >= most, 0) && !MakeRoom(thread, most)) {
    return nullptr;
  }
  ring::Record* record = &thread.records[thread.head & (thread.ring_slots - 1)];
  record->kind = kind;
  record->flags = flags;
  record->call = call;
  record->thread = thread.index;
  record->order = order;
  record->ticks = ticks;
  record->call_site = site;
  return record;
}

// How many records ahead to prefetch: a record takes tens of nanoseconds, a line from another core
// a hundred.
inline constexpr uint64_t kPrefetched = 3;

inline void FinishRecord(ThreadContext& thread) {
  // A thread that looks for a slot to take over reads the head at any time (lifecycle.cc).
  const uint64_t head = thread.head + 1;
  Put(thread.head, head);
  // litmus: ring.publish
  Shared(thread.slot->ring_head).store(head, std::memory_order_release);
  // The collector's core has read that line since it was last written: fetch it while the job
  // works.
  PrefetchToWrite(&thread.records[(head + kPrefetched) & (thread.ring_slots - 1)]);
}

// From here on a kernel is no longer part of an earlier run: StreamState::run_mark. Stores need no
// order among threads, since no two are of the same value: a run ends when the mark has changed.
inline void EndKernelRuns(ThreadContext& thread, uint64_t order) {
  thread.process->non_kernel_mark.store(order + 1, std::memory_order_relaxed);
}

static_assert(ring::kCallCount <= 8 * sizeof(ring::Header::rows_used));

// One bit a row, set once: later calls only read a cache line that no thread writes any more.
inline void MarkRowUsed(ring::Header& header, CallId call) {
  std::atomic_ref<uint64_t> word(header.rows_used[call / 64]);
  const uint64_t bit = uint64_t{1} << call % 64;
  if (__builtin_expect((word.load(std::memory_order_relaxed) & bit) == 0, 0)) {
    // litmus: calls.row
    word.fetch_or(bit, std::memory_order_relaxed);
  }
}

// An outermost call of NCCL, after MarkRowUsed: readers take the count first. Nothing counts in the
// line of another thread.
inline void CountNcclCall(ThreadContext& thread) {
  // litmus: calls.count
  Shared(thread.slot->nccl_calls).store(thread.slot->nccl_calls + 1, std::memory_order_release);
}

inline void StopPolling(ThreadContext& thread) {
  if (__builtin_expect(thread.polling, 0)) {
    thread.polling = false;
    Put(thread.slot->poll_object, uint64_t{0});
    Put(thread.slot->poll_count, uint64_t{0});
  }
}

inline void MarkGpuThread(ThreadContext& thread) {
  if (__builtin_expect(!thread.gpu_thread, 0)) {
    thread.gpu_thread = true;
    Put(thread.slot->gpu_thread, uint16_t{1});
  }
}

// The thread is in a call that may block, until LeaveCall. `covered`: of a wait for the GPU.
inline void EnterCall(ThreadContext& thread, CallId call, uint64_t order, uint64_t ticks,
                      uint64_t site, const ring::CallArguments& arguments,
                      const Behind* covered = nullptr) {
  ring::ThreadSlot& slot = *thread.slot;
  Put(slot.seq, ++thread.seq);
  // litmus: enter.begin
  std::atomic_thread_fence(std::memory_order_release);
  Put(slot.call, static_cast<uint16_t>(call));
  Put(slot.call_order, order);
  Put(slot.since_ticks, ticks);
  Put(slot.call_site, site);
  Put(slot.entered, slot.entered + 1);
  ring::CallArguments& to = slot.detail.arguments;
  Put(to.comm, arguments.comm);
  Put(to.stream, arguments.stream);
  Put(to.count, arguments.count);
  Put(to.sequence, arguments.sequence);
  Put(to.root_or_peer, arguments.root_or_peer);
  Put(to.datatype, arguments.datatype);
  Put(to.reduce_op, arguments.reduce_op);
  Put(to.wait, arguments.wait);
  Put(to.flags, arguments.flags);
  Put(to.device, arguments.device);
  Put(to.covered, covered != nullptr ? covered->count : 0u);
  for (uint32_t i = 0; covered != nullptr && i < covered->count; ++i) {
    Put(slot.detail.positions[i].stream, covered->places[i].stream);
    Put(slot.detail.positions[i].ordinal, covered->places[i].ordinal);
  }
  // litmus: enter.end
  Shared(slot.seq).store(++thread.seq, std::memory_order_release);
}

inline void LeaveCall(ThreadContext& thread) {
  ring::ThreadSlot& slot = *thread.slot;
  Put(slot.seq, ++thread.seq);
  // litmus: leave.begin
  std::atomic_thread_fence(std::memory_order_release);
  Put(slot.call, uint16_t{ring::kCallNone});
  Put(slot.left, slot.left + 1);
  // litmus: leave.end
  Shared(slot.seq).store(++thread.seq, std::memory_order_release);
}

// kEnd of the call that the thread is in; LeaveCall comes after it.
inline void PublishEnd(ThreadContext& thread, CallId call, uint8_t flags, uint64_t order,
                       uint64_t ticks, uint64_t site, const ring::EndPayload& end) {
  ring::Record* record =
      StartRecord(thread, ring::RecordKind::kEnd, call, flags, order, ticks, site);
  if (record != nullptr) {
    record->payload.end = end;
    FinishRecord(thread);
  }
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_RING_CLIENT_H_
