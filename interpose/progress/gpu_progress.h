// Observes the GPU: records events ("markers") behind NCCL operations; the watcher thread queries
// them and answers the collector's rounds.
//
// A complete marker behind the work of ordinals up to n proves all of them done. One goes behind
// every NCCL operation; one goes in front of it if something was enqueued since the last marker. So
// "everything before ordinal n + 1 is done" (StreamSlot::head) is the same fact as "n is done"
// whenever there is more to come, and needs no evidence of its own.
//
// The shim records only events, never stream memory writes or host functions: those add
// dependencies, and can hang a job that would have gone on. It records nothing on a capturing
// stream.
#ifndef GORDIAN_INTERPOSE_PROGRESS_GPU_PROGRESS_H_
#define GORDIAN_INTERPOSE_PROGRESS_GPU_PROGRESS_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Slow parts of the functions below.
void FindDriver(ThreadContext& thread);
void RecordMarker(ThreadContext& thread, StreamState& stream, uint64_t covered);
bool AskCapturing(ThreadContext& thread, const StreamState& stream);

// The driver's number of the stream's capture; 0: none, or unknown.
uint64_t CaptureOf(uint64_t stream_handle);
void StartWatcher(Process& process);
// Makes the watcher look now instead of at the end of its sleep.
void WakeWatcher(Process& process);

// Any of the driver's functions found so far. Cheap.
bool DriverKnown();

// Before the first operation of a thread: looks for a driver that is loaded by now.
inline void PrepareDriver(ThreadContext& thread) {
  if (__builtin_expect(!DriverKnown() && thread.driver_retry < 64, 0)) FindDriver(thread);
}

// Whether work put on the stream now goes into a graph instead of to the GPU. Keeps errno.
inline bool IsCapturing(ThreadContext& thread, const StreamState& stream) {
  if (!DriverKnown() && thread.process->active_captures.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  return AskCapturing(thread, stream);
}

inline bool MarkersOn(const Process& process) {
  return process.markers_on.load(std::memory_order_relaxed) != 0 && DriverKnown();
}

// In front of an NCCL operation that is about to be enqueued.
inline void MarkBefore(ThreadContext& thread, StreamState& stream) {
  if (!MarkersOn(*thread.process)) return;
  const uint64_t enqueued = Shared(stream.slot->enqueued).load(std::memory_order_relaxed);
  const MarkerQueue* queue = stream.markers.load(std::memory_order_acquire);
  const uint64_t marked = queue == nullptr ? 0 : queue->marked.load(std::memory_order_relaxed);
  if (enqueued > marked) RecordMarker(thread, stream, enqueued);
}

// Behind an NCCL operation that has ordinal `ordinal`.
inline void MarkAfter(ThreadContext& thread, StreamState& stream, uint64_t ordinal) {
  if (MarkersOn(*thread.process)) RecordMarker(thread, stream, ordinal);
}

// A stream slot goes to another stream; its queue is drained or broken.
void ForgetMarkers(StreamState& stream);

// The device is about to be reset: its events go with it.
void DropMarkersOfDevice(Process& process, int32_t device);

// The context is about to be destroyed.
void DropMarkersOfContext(Process& process, void* context);

// Device of the calling thread's current context. False without driver or context.
bool CurrentContextDevice(int* device);

// Device of a context; of the current one if it is null or the driver cannot tell.
bool DeviceOfContext(const void* context, int* device);

// Makes sure that this process answers rounds. Called at every call that may block.
inline void EnsureWatcher(Process& process) {
  if (__builtin_expect(process.watcher_started.load(std::memory_order_relaxed) == 0, 0)) {
    StartWatcher(process);
  }
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_PROGRESS_GPU_PROGRESS_H_
