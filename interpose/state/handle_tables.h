// Maps the handle of a stream or communicator in a call to the shim's state of it.
//
// Look-ups take no lock. A new handle takes a slow path under a TryLock; a full table counts a loss
// in the header and returns null, which every caller takes for "not tracked".
#ifndef GORDIAN_INTERPOSE_STATE_HANDLE_TABLES_H_
#define GORDIAN_INTERPOSE_STATE_HANDLE_TABLES_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

inline constexpr uint64_t kLegacyHandle = 1;     // cudaStreamLegacy, CU_STREAM_LEGACY
inline constexpr uint64_t kPerThreadHandle = 2;  // cudaStreamPerThread, CU_STREAM_PER_THREAD

// Current device of the calling thread, from a cache that cudaSetDevice and cuCtx* calls
// invalidate. 0 if unknown.
int32_t QueryDevice(ThreadContext& thread);
inline int32_t CurrentDevice(ThreadContext& thread) {
  return __builtin_expect(thread.device >= 0, 1) ? thread.device : QueryDevice(thread);
}

// Default streams are one per device (legacy) or per device and thread; explicit handles stand for
// themselves. Never 0 or 1.
inline uint64_t StreamKey(const ThreadContext& thread, uint64_t handle, int32_t device) {
  if (handle > kPerThreadHandle) return handle;
  const uint64_t generation =
      handle == kPerThreadHandle ? uint64_t{thread.slot->generation & 0xffff} << 24 : 0;
  const uint64_t owner = handle == kPerThreadHandle ? uint64_t{thread.index} << 40 : 0;
  return uint64_t{1} << 63 | handle << 56 | owner | generation |
         (static_cast<uint64_t>(device) & 0xffffff);
}

StreamState* FindOrAddStream(ThreadContext& thread, uint64_t handle, int32_t device);

// `handle` 1 and 2 name default streams of `device`; it is not read for explicit handles.
inline StreamState* FindStream(ThreadContext& thread, uint64_t handle, int32_t device) {
  if (__builtin_expect(handle > kPerThreadHandle, 1)) {
    StreamState* cached = thread.cached_stream;
    // As a look-up in the table: another stream may have got slot and handle since.
    // litmus: stream.cached
    if (__builtin_expect(cached != nullptr && cached->key.load(std::memory_order_acquire) == handle,
                         1)) {
      return cached;
    }
  } else {
    StreamState* cached = thread.cached_default;
    if (cached != nullptr &&
        cached->key.load(std::memory_order_acquire) == StreamKey(thread, handle, device)) {
      return cached;
    }
  }
  return FindOrAddStream(thread, handle, device);
}

// Adds a stream whose creation the shim saw. Returns null if no slot is left.
StreamState* AddStream(ThreadContext& thread, uint64_t handle, int32_t device, uint32_t flags,
                       CallId call, uint64_t site);
// Returns its id, or kNoId if it is unknown. The slot keeps its last state until it is reused.
uint32_t RemoveStream(ThreadContext& thread, uint64_t handle);
// Drops the per-thread default streams of a thread slot that another thread gets.
void ForgetPerThreadStreams(Process& process, uint32_t thread_index);

// Writes the kStreamCreate record of a stream.
void PublishStream(ThreadContext& thread, const StreamState& stream, CallId call, uint64_t site);

CommState* FindOrAddComm(ThreadContext& thread, uint64_t handle);
inline CommState* FindComm(ThreadContext& thread, const void* comm) {
  const uint64_t handle = reinterpret_cast<uint64_t>(comm);
  CommState* cached = thread.cached_comm;
  if (__builtin_expect(
          cached != nullptr && cached->handle.load(std::memory_order_acquire) == handle, 1)) {
    return cached;
  }
  return handle == 0 ? nullptr : FindOrAddComm(thread, handle);
}

// A communicator-to-be: id and slot, no handle yet. Null when no slot is left.
CommState* AddComm(Process& process, uint64_t uid, uint32_t parent, int32_t nranks, int32_t rank,
                   int32_t device);
void BindComm(Process& process, CommState& comm, uint64_t handle);
// Takes the handle away, so that NCCL may give it to another communicator.
void UnbindComm(Process& process, CommState& comm);
void ReleaseComm(Process& process, CommState& comm);
// Room for the point-to-point counters once the number of ranks is known.
void SizeComm(Process& process, CommState& comm, int32_t nranks, int32_t rank);
// Asks NCCL through its interface for tools (pncclX), so that the call does not count as the
// application's. Returns false, and leaves `value`, if NCCL does not answer.
enum class CommQuestion { kCount, kRank, kDevice };
bool AskNccl(CommQuestion question, uint64_t handle, int32_t* value);
void SetCommState(CommState& comm, ring::CommState state);
ring::CommState GetCommState(const CommState& comm);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_HANDLE_TABLES_H_
