#include "interpose/progress/graph_markers.h"

#include "interpose/entry/lifecycle.h"
#include "interpose/progress/driver_api.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/ring_client.h"

namespace gordian::interpose {

struct GraphMarkers {
  struct Marker {
    CUevent event;
    void* context;  // CUcontext of the event
    uint64_t told;  // Process::graph_launches when the watcher reported it done
  };
  // The last marker of a capture on a stream.
  struct Last {
    uint64_t capture;
    CUgraphNode node;
    uint32_t stream;
    uint32_t number;
  };
  static constexpr uint32_t kLast = 64;

  TryLock lock;                // guards the members below except `used` and `told`
  std::atomic<uint32_t> used;  // markers [1, used] exist
  uint32_t next_last;
  Last last[kLast];
  uint64_t launches_before;           // at the round before; the watcher's
  Marker markers[kGraphMarkers + 1];  // by number, from 1
};

namespace {

GraphMarkers* MarkersOf(Process& process) {
  GraphMarkers* markers = process.graph_markers.load(std::memory_order_acquire);
  if (markers != nullptr) return markers;
  markers = static_cast<GraphMarkers*>(ArenaAllocate(process, sizeof(GraphMarkers)));
  if (markers == nullptr) return nullptr;
  GraphMarkers* expected = nullptr;
  return process.graph_markers.compare_exchange_strong(expected, markers) ? markers : expected;
}

// The single node behind which the stream's next captured work comes; null if there are several.
CUgraphNode OnlyDependency(const StreamState& stream, uint64_t capture) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  if (g_driver.stream_capture_info == nullptr ||
      g_driver.stream_capture_info(reinterpret_cast<CUstream>(stream.handle), &status, &id, &graph,
                                   &nodes, &count) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE || id != capture || count != 1) {
    return nullptr;
  }
  return nodes[0];
}

// Call under the lock. Returns 0 if markers have run out, or the driver refuses.
uint32_t Capture(GraphMarkers& markers, const StreamState& stream) {
  const uint32_t used = markers.used.load(std::memory_order_relaxed);
  if (used == kGraphMarkers || stream.handle <= 2) return 0;  // default streams are not captured
  auto* handle = reinterpret_cast<CUstream>(stream.handle);
  CUcontext context = nullptr;
  if (g_driver.stream_get_context == nullptr ||
      g_driver.stream_get_context(handle, &context) != CUDA_SUCCESS || context == nullptr) {
    return 0;
  }
  ContextScope in_context(context);
  CUevent event = nullptr;
  if (g_driver.event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return 0;
  if (g_driver.event_record_with_flags(event, handle, CU_EVENT_RECORD_EXTERNAL) != CUDA_SUCCESS) {
    if (g_driver.event_destroy != nullptr) g_driver.event_destroy(event);
    return 0;
  }
  markers.markers[used + 1] = {event, context, 0};
  // litmus: graph.add
  markers.used.store(used + 1, std::memory_order_release);
  return used + 1;
}

uint32_t CaptureOrShare(GraphMarkers& markers, const StreamState& stream, uint64_t capture) {
  GraphMarkers::Last* place = nullptr;
  for (GraphMarkers::Last& last : markers.last) {
    if (last.capture == capture && last.stream == stream.id) place = &last;
  }
  if (place != nullptr && OnlyDependency(stream, capture) == place->node) return place->number;
  const uint32_t number = Capture(markers, stream);
  if (number == 0) return 0;
  if (place == nullptr) place = &markers.last[markers.next_last++ % GraphMarkers::kLast];
  *place = {capture, OnlyDependency(stream, capture), stream.id, number};
  if (place->node == nullptr) place->capture = 0;
  return number;
}

}  // namespace

uint32_t MarkCaptured(ThreadContext& thread, StreamState& stream, uint64_t capture) {
  ErrnoKeeper keep_errno;
  if (capture == 0 || !GraphMarkersOn(*thread.process) || !MarkersOn(*thread.process) ||
      g_driver.event_record_with_flags == nullptr) {
    return 0;
  }
  GraphMarkers* markers = MarkersOf(*thread.process);
  if (markers == nullptr || !markers->lock.Acquire()) return 0;
  const uint32_t number = CaptureOrShare(*markers, stream, capture);
  markers->lock.Release();
  return number;
}

void NoteCapturedBetween(ThreadContext& thread, uint64_t site, const StreamState& stream,
                         uint64_t capture, uint32_t front, uint32_t behind) {
  if (front == 0 || behind == 0) return;
  // Uses the number of a call whose records are work on streams.
  if (ring::Record* record =
          StartRecord(thread, ring::RecordKind::kPoint, ring::kCall_cuEventRecordWithFlags, 0,
                      NextOrder(thread), ReadTicks(thread), site)) {
    record->payload.work = {stream.id, ring::WorkKind::kGraphMarkers, capture,
                            uint64_t{behind} << 32 | front, 0};
    FinishRecord(thread);
  }
}

void StopGraphMarkers(Process& process) {
  process.graph_markers_on.store(0, std::memory_order_relaxed);
}

void PublishGraphProgress(Process& process) {
  // In one order with watcher_busy, as MarkerQueue::broken.
  // litmus: busy.graphs
  GraphMarkers* markers = process.graph_markers.load(std::memory_order_seq_cst);
  if (markers == nullptr || !MarkersOn(process)) return;
  const uint64_t launches = process.graph_launches.load(std::memory_order_acquire);
  const bool still = launches == markers->launches_before;
  markers->launches_before = launches;
  if (!still || launches == 0) return;
  ThreadContext* thread = nullptr;
  // litmus: graph.used
  const uint32_t used = markers->used.load(std::memory_order_acquire);
  constexpr uint32_t kBatch = 64;
  for (uint32_t first = 1; first <= used; first += kBatch) {
    const uint64_t asked_after = Shared(process.header->order).load(std::memory_order_seq_cst);
    uint64_t done = 0;
    for (uint32_t i = 0; i < kBatch && first + i <= used; ++i) {
      GraphMarkers::Marker& marker = markers->markers[first + i];
      if (marker.told == launches) continue;
      if (process.exiting.load(std::memory_order_seq_cst) != 0) return;
      if (g_driver.context_set_current != nullptr) {
        g_driver.context_set_current(static_cast<CUcontext>(marker.context));
      }
      if (g_driver.event_query(marker.event) == CUDA_SUCCESS) done |= uint64_t{1} << i;
    }
    // A launch in the meantime has a later number, and this says nothing about it.
    if (done == 0) continue;
    if (thread == nullptr) thread = CurrentThread();
    if (thread == nullptr || thread->ring_slots == 0) return;
    // Not a loss: what finds no room now is reported at the next round.
    // litmus: graph.room
    thread->cached_tail = Shared(thread->slot->ring_tail).load(std::memory_order_acquire);
    if (thread->head - thread->cached_tail >= thread->work_slots) return;
    ring::Record* record =
        StartRecord(*thread, ring::RecordKind::kPoint, ring::kCall_cuEventRecordWithFlags, 0,
                    NextOrder(*thread), ReadTicks(*thread), 0);
    if (record == nullptr) return;
    record->payload.work = {first, ring::WorkKind::kGraphProgress, asked_after, done, 0};
    FinishRecord(*thread);
    for (uint32_t i = 0; i < kBatch && first + i <= used; ++i) {
      if ((done >> i & 1) != 0) markers->markers[first + i].told = launches;
    }
  }
}

}  // namespace gordian::interpose
