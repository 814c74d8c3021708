#include "interpose/progress/gpu_progress.h"

#include <sched.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/progress/driver_api.h"
#include "interpose/progress/graph_markers.h"

namespace gordian::interpose {

constinit DriverApi g_driver = {};

namespace {

constinit TryLock g_driver_lock = {};

template <typename Pointer>
void Find(const char* name, Pointer* function) {
  *function = reinterpret_cast<Pointer>(FindInLibrary(Library::kDriver, name));
}

// The context that work on the stream runs in, or null. Never makes one: a primary context is
// retained only where it is active.
void* ContextOf(const StreamState& stream) {
  CUcontext context = nullptr;
  if (stream.handle > 2) {
    if (g_driver.stream_get_context != nullptr &&
        g_driver.stream_get_context(reinterpret_cast<CUstream>(stream.handle), &context) ==
            CUDA_SUCCESS) {
      return context;
    }
  }
  int device = -1;
  if (CurrentContextDevice(&device) && device == stream.device &&
      g_driver.context_get_current(&context) == CUDA_SUCCESS) {
    return context;
  }
  unsigned flags = 0;
  int active = 0;
  if (g_driver.primary_get_state != nullptr && g_driver.primary_retain != nullptr &&
      g_driver.primary_get_state(stream.device, &flags, &active) == CUDA_SUCCESS && active != 0 &&
      g_driver.primary_retain(&context, stream.device) == CUDA_SUCCESS) {
    return context;
  }
  return nullptr;
}

MarkerQueue* QueueOf(Process& process, StreamState& stream) {
  MarkerQueue* queue = stream.markers.load(std::memory_order_acquire);
  if (queue == nullptr) {
    queue = static_cast<MarkerQueue*>(ArenaAllocate(process, sizeof(MarkerQueue)));
    if (queue == nullptr) return nullptr;
    MarkerQueue* expected = nullptr;
    if (!stream.markers.compare_exchange_strong(expected, queue)) queue = expected;
  }
  return queue;
}

// Takes an event that has no waiters any more, else makes one. Call under the queue's lock.
CUevent TakeEvent(MarkerQueue& queue) {
  if (queue.spare != nullptr) {
    auto* event = static_cast<CUevent>(queue.spare);
    queue.spare = nullptr;
    return event;
  }
  // litmus: markers.reclaim
  const uint64_t tail = queue.tail.load(std::memory_order_acquire);
  while (queue.reclaimed < tail) {
    Marker& marker = queue.ring[queue.reclaimed++ % kMarkersPerStream];
    if (marker.event != nullptr) {
      auto* event = static_cast<CUevent>(marker.event);
      marker.event = nullptr;
      return event;
    }
  }
  CUevent event = nullptr;
  return g_driver.event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : nullptr;
}

enum class Recorded { kNo, kOwn, kShared };

// Call under the queue's lock.
Recorded Append(MarkerQueue& queue, const StreamState& stream, uint64_t covered) {
  auto* handle = reinterpret_cast<CUstream>(stream.handle);
  const uint64_t head = queue.head.load(std::memory_order_relaxed);
  // litmus: markers.room
  if (head - queue.tail.load(std::memory_order_acquire) >= kMarkersPerStream) {
    // The queue is full: moves the newest marker here, so that the last operation of a burst is
    // always covered. The watcher reads `covered` before it queries, so it never claims more than
    // it saw.
    Marker& newest = queue.ring[(head - 1) % kMarkersPerStream];
    if (g_driver.event_record(static_cast<CUevent>(newest.event), handle) != CUDA_SUCCESS) {
      return Recorded::kNo;
    }
    // litmus: markers.move
    newest.covered.store(covered, std::memory_order_release);
    if (queue.tail.load(std::memory_order_acquire) < head) return Recorded::kShared;
    // The watcher has finished with it: adds a marker instead.
  }
  // At most kMarkersPerStream slots hold events, and reclaiming goes in order: when all of them do,
  // the one that TakeEvent empties is the one that is filled here.
  CUevent event = TakeEvent(queue);
  if (event == nullptr) return Recorded::kNo;
  if (g_driver.event_record(event, handle) != CUDA_SUCCESS) {
    queue.spare = event;
    return Recorded::kNo;
  }
  Marker& marker = queue.ring[head % kMarkersPerStream];
  marker.event = event;
  marker.covered.store(covered, std::memory_order_relaxed);
  // litmus: markers.add
  queue.head.store(head + 1, std::memory_order_release);
  return Recorded::kOwn;
}

}  // namespace

bool DriverKnown() {
  // litmus: driver.known
  return g_driver.known.load(std::memory_order_acquire) != 0;
}

void FindDriver(ThreadContext& thread) {
  ErrnoKeeper keep_errno;
  ++thread.driver_retry;
  if (!g_driver_lock.Acquire(1, 0)) return;
  if (!DriverKnown()) {
    Find("cuEventCreate", &g_driver.event_create);
    if (g_driver.event_create != nullptr) {
      Find("cuEventRecord", &g_driver.event_record);
      Find("cuEventQuery", &g_driver.event_query);
      Find("cuEventRecordWithFlags", &g_driver.event_record_with_flags);
      Find("cuEventDestroy_v2", &g_driver.event_destroy);
      Find("cuStreamIsCapturing", &g_driver.stream_is_capturing);
      Find("cuStreamGetCaptureInfo_v2", &g_driver.stream_capture_info);
      Find("cuStreamGetCtx", &g_driver.stream_get_context);
      Find("cuStreamGetId", &g_driver.stream_get_id);
      Find("cuCtxGetCurrent", &g_driver.context_get_current);
      Find("cuCtxSetCurrent", &g_driver.context_set_current);
      Find("cuCtxPushCurrent_v2", &g_driver.context_push);
      Find("cuCtxPopCurrent_v2", &g_driver.context_pop);
      Find("cuCtxGetDevice", &g_driver.context_get_device);
      Find("cuCtxGetDevice_v2", &g_driver.device_of_context);
      Find("cuThreadExchangeStreamCaptureMode", &g_driver.exchange_capture_mode);
      Find("cuDevicePrimaryCtxGetState", &g_driver.primary_get_state);
      Find("cuDevicePrimaryCtxRetain", &g_driver.primary_retain);
      if (g_driver.event_record != nullptr && g_driver.event_query != nullptr) {
        // litmus: driver.tell
        g_driver.known.store(1, std::memory_order_release);
      }
    }
  }
  g_driver_lock.Release();
  if (MarkersOn(*thread.process)) Put(thread.header->markers_enabled, uint32_t{1});
}

bool CurrentContextDevice(int* device) {
  CUdevice found = 0;
  CUcontext context = nullptr;
  if (!DriverKnown() || g_driver.context_get_device == nullptr ||
      g_driver.context_get_current == nullptr ||
      g_driver.context_get_current(&context) != CUDA_SUCCESS || context == nullptr ||
      g_driver.context_get_device(&found) != CUDA_SUCCESS) {
    return false;
  }
  *device = found;
  return true;
}

bool DeviceOfContext(const void* context, int* device) {
  CUdevice found = 0;
  if (context == nullptr || !DriverKnown() || g_driver.device_of_context == nullptr ||
      g_driver.device_of_context(&found, static_cast<CUcontext>(const_cast<void*>(context))) !=
          CUDA_SUCCESS) {
    return CurrentContextDevice(device);
  }
  *device = found;
  return true;
}

bool AskCapturing(ThreadContext& thread, const StreamState& stream) {
  ErrnoKeeper keep_errno;
  PrepareDriver(thread);
  if (!DriverKnown() || g_driver.stream_is_capturing == nullptr) {
    // Some capture is running, on an unknown stream: leaves the work out rather than count it
    // twice.
    return thread.process->active_captures.load(std::memory_order_relaxed) != 0;
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result =
      g_driver.stream_is_capturing(reinterpret_cast<CUstream>(stream.handle), &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;  // legacy stream during a capture
  return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

uint64_t CaptureOf(uint64_t stream_handle) {
  ErrnoKeeper keep_errno;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  if (!DriverKnown() || g_driver.stream_capture_info == nullptr ||
      g_driver.stream_capture_info(reinterpret_cast<CUstream>(stream_handle), &status, &capture,
                                   nullptr, nullptr, nullptr) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return 0;
  }
  return capture;
}

void RecordMarker(ThreadContext& thread, StreamState& stream, uint64_t covered) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  if (process.exiting.load(std::memory_order_relaxed) != 0) return;
  MarkerQueue* queue = QueueOf(process, stream);
  Recorded recorded = Recorded::kNo;
  if (queue != nullptr && queue->broken.load(std::memory_order_relaxed) == 0 &&
      queue->lock.Acquire()) {
    if (queue->context == nullptr) queue->context = ContextOf(stream);
    if (queue->context != nullptr) {
      ContextScope in_context(queue->context);
      recorded = Append(*queue, stream, covered);
      if (recorded != Recorded::kNo && queue->marked.load(std::memory_order_relaxed) < covered) {
        queue->marked.store(covered, std::memory_order_relaxed);
      }
    }
    queue->lock.Release();
  }
  if (recorded != Recorded::kOwn) Add(thread.header->lost_markers, uint64_t{1});
}

void ForgetMarkers(StreamState& stream) {
  MarkerQueue* queue = stream.markers.load(std::memory_order_relaxed);
  if (queue == nullptr) return;
  if (queue->broken.load(std::memory_order_relaxed) != 0) {
    // Its markers are still queued, and only the watcher may take them out: the next stream gets
    // another queue.
    stream.markers.store(nullptr, std::memory_order_release);
    return;
  }
  // Events belong to a context, and the next stream may be of another: the old ones are dropped.
  for (Marker& marker : queue->ring) marker.event = nullptr;
  queue->reclaimed = queue->tail.load(std::memory_order_relaxed);
  queue->marked.store(0, std::memory_order_relaxed);
  queue->context = nullptr;
  queue->spare = nullptr;
}

namespace {

template <typename Belongs>
void DropMarkers(Process& process, const Belongs& belongs) {
  // Events in graphs may be of any context, and are few: ignores all of them from here on.
  StopGraphMarkers(process);
  // litmus: busy.drop_graphs
  process.graph_markers.store(nullptr, std::memory_order_seq_cst);
  const uint32_t used = process.streams_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    StreamState& stream = process.stream_states[i];
    MarkerQueue* queue = stream.markers.load(std::memory_order_acquire);
    if (queue != nullptr && belongs(stream, *queue)) {
      // litmus: busy.break
      queue->broken.store(1, std::memory_order_seq_cst);
    }
  }
  // Lets a running query finish, which takes microseconds.
  // litmus: busy.wait
  for (int i = 0; i < 1000 && process.watcher_busy.load(std::memory_order_seq_cst) != 0; ++i) {
    sched_yield();
  }
}

}  // namespace

void DropMarkersOfDevice(Process& process, int32_t device) {
  DropMarkers(process, [=](const StreamState& stream, const MarkerQueue&) {
    return stream.device == device;
  });
}

void DropMarkersOfContext(Process& process, void* context) {
  DropMarkers(process, [=](const StreamState&, const MarkerQueue& queue) {
    return queue.context != nullptr && queue.context == context;
  });
}

}  // namespace gordian::interpose
