// Turns CUDA calls into records and state. Runs on the calling thread, for outermost calls only,
// and keeps errno.
#ifndef GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_CUDA_H_
#define GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_CUDA_H_

#include "interpose/progress/gpu_progress.h"
#include "interpose/state/handle_tables.h"
#include "interpose/state/ring_client.h"
#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// The stream that a call means by `handle` when it was called through a symbol whose default stream
// is the per-thread one, or the legacy one. Null when streams have run out.
inline StreamState* ResolveStream(ThreadContext& thread, void* stream, bool per_thread_default) {
  uint64_t handle = reinterpret_cast<uint64_t>(stream);
  if (handle > kPerThreadHandle) return FindStream(thread, handle, 0);
  if (handle == 0) handle = per_thread_default ? kPerThreadHandle : kLegacyHandle;
  return FindStream(thread, handle, CurrentDevice(thread));
}

// Begins a call that waits for the GPU. `stream` for kStream and kCopy. `device`: -1 for the
// stream's, else the current one.
void BeginHostWait(ThreadContext& thread, CallId call, uint64_t site, ring::WaitKind kind,
                   StreamState* stream, const void* event, int32_t device = -1);
void EndHostWait(ThreadContext& thread, CallId call, uint64_t site, int result);

// Gives a run of kernels and copies its ordinal and record; the caller knows that it is a new one.
void BeginKernelRun(ThreadContext& thread, CallId call, uint64_t site, StreamState& stream);

// A kernel or asynchronous copy was put on the stream.
inline void NoteKernel(ThreadContext& thread, CallId call, uint64_t site, StreamState* stream) {
  StopPolling(thread);
  MarkGpuThread(thread);
  if (__builtin_expect(stream == nullptr, 0)) return;
  // Relaxed on purpose: launches from two threads at once have no order between them either.
  if (__builtin_expect(stream->run_mark.load(std::memory_order_relaxed) ==
                           thread.process->non_kernel_mark.load(std::memory_order_relaxed),
                       1)) {
    return;
  }
  BeginKernelRun(thread, call, site, *stream);
}

// An event record, event wait or host function was put on the stream.
void NoteStreamWork(ThreadContext& thread, CallId call, uint64_t site, ring::WorkKind kind,
                    StreamState* stream, const void* event);

// Records a call that shows which operations an executable graph holds (W12), after it succeeded.
void NoteGraphCall(ThreadContext& thread, CallId call, uint64_t site,
                   const ring::GraphPayload& payload);

// The event no longer stands for what it did: it is new or gone, or nothing shows its work.
void NoteEventForgotten(ThreadContext& thread, CallId call, uint64_t site, const void* event);

void NoteStreamCreated(ThreadContext& thread, CallId call, uint64_t site, const void* stream,
                       unsigned flags);
void NoteStreamDestroyed(ThreadContext& thread, CallId call, uint64_t site, const void* stream);

// cudaStreamQuery, cudaEventQuery. `object`: the event, or the stream.
void NoteQuery(ThreadContext& thread, CallId call, const void* object, bool not_ready);

// What a copy of kind "default" does. True: no host memory takes part, so the call does not wait
// for the copy.
bool IsDeviceToDevice(const void* to, const void* from);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_CUDA_H_
