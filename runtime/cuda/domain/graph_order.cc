#include "runtime/cuda/domain/graph_order.h"

#include <algorithm>
#include <utility>

namespace gordian::runtime::cuda {
namespace {

using Gone = std::shared_ptr<std::atomic<bool>>;

// CUDA calls it on a thread of its own; it must not call CUDA.
void CUDART_CB GraphGone(void* gone) {
  const std::unique_ptr<Gone> held(static_cast<Gone*>(gone));
  (*held)->store(true, std::memory_order_release);
}

bool IsDone(cudaEvent_t event) { return IsThrough(cudaEventQuery(event)); }

cudaError_t AddTips(cudaStream_t stream, const Capture& capture,
                    std::vector<cudaGraphNode_t> nodes) {
  std::erase_if(nodes, [&](cudaGraphNode_t node) {
    return std::find(capture.tips.begin(), capture.tips.end(), node) != capture.tips.end();
  });
  if (nodes.empty()) return cudaSuccess;
  return cudaStreamUpdateCaptureDependencies(stream, nodes.data(), nullptr, nodes.size(),
                                             cudaStreamAddCaptureDependencies);
}

}  // namespace

cudaError_t IsCaptured(cudaStream_t stream, bool* captured) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t e = cudaStreamIsCapturing(stream, &status);
  *captured = status != cudaStreamCaptureStatusNone;
  if (e != cudaSuccess) {
    [[maybe_unused]] const cudaError_t cleared = cudaGetLastError();  // the caller gets `e`
  }
  return e;
}

cudaError_t CaptureOf(cudaStream_t stream, Capture* capture) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* tips = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  const cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, &capture->id, &capture->graph,
                                                 &tips, &edges, &count);
  if (e != cudaSuccess) return e;
  if (status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
  capture->tips.assign(tips, tips + count);
  capture->edges.clear();
  if (edges != nullptr) capture->edges.assign(edges, edges + count);
  return cudaSuccess;
}

cudaError_t SetTips(cudaStream_t stream, const Capture& capture) {
  auto tips = capture.tips;
  return cudaStreamUpdateCaptureDependencies(stream, tips.data(),
                                             capture.edges.empty() ? nullptr : capture.edges.data(),
                                             tips.size(), cudaStreamSetCaptureDependencies);
}

cudaError_t KeepWithGraph(cudaStream_t stream, std::shared_ptr<void> what) {
  Capture capture;
  cudaError_t e = CaptureOf(stream, &capture);
  if (e != cudaSuccess) return e;
  using Held = std::shared_ptr<void>;
  auto held = std::make_unique<Held>(std::move(what));
  cudaUserObject_t object = nullptr;
  e = cudaUserObjectCreate(
      &object, held.get(), [](void* let_go) { delete static_cast<Held*>(let_go); }, 1,
      cudaUserObjectNoDestructorSync);
  if (e != cudaSuccess) return e;
  [[maybe_unused]] Held* const released = held.release();
  return cudaGraphRetainUserObject(capture.graph, object, 1, cudaGraphUserObjectMove);
}

GraphOrder::~GraphOrder() {
  for (const cudaEvent_t event : {replayed_, called_, between_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
}

cudaError_t GraphOrder::Begin() {
  cudaError_t e = cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking);
  for (cudaEvent_t* event : {&replayed_, &called_, &between_}) {
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
  }
  return e;
}

cudaError_t GraphOrder::Begun() {
  is_own_ = true;
  return cudaEventRecord(called_, own_stream_);
}

GraphOrder::Waits GraphOrder::Before(cudaStream_t stream) const {
  Waits waits;
  if (!IsDone(replayed_)) waits.replayed = replayed_;
  if ((is_own_ || called_on_ != stream) && !IsDone(called_)) waits.called = called_;
  return waits;
}

cudaError_t GraphOrder::Called(const std::vector<cudaStream_t>& streams) {
  is_own_ = std::any_of(streams.begin(), streams.end(),
                        [&](cudaStream_t s) { return s != streams.front(); });
  if (!is_own_) {
    called_on_ = streams.front();
    return cudaEventRecord(called_, called_on_);
  }
  // The operations are side by side on several streams: the event is behind all of them, and no
  // operation is behind another.
  cudaError_t e = cudaSuccess;
  for (size_t i = 0; i < streams.size() && e == cudaSuccess; ++i) {
    if (std::find(streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(i), streams[i]) !=
        streams.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    e = cudaEventRecord(between_, streams[i]);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(own_stream_, between_, 0);
  }
  return e == cudaSuccess ? cudaEventRecord(called_, own_stream_) : e;
}

void GraphOrder::Forget(cudaStream_t stream) {
  if (called_on_ == stream) is_own_ = true;
}

void GraphOrder::EndOfCalls() {
  if (own_stream_ != nullptr) cudaStreamDestroy(std::exchange(own_stream_, nullptr));
  graphs_.clear();
}

bool GraphOrder::IsReplayed() const { return IsDone(replayed_); }

cudaError_t GraphOrder::Find(const Capture& capture, Graph** graph) {
  std::erase_if(graphs_, [](const auto& known) {
    return known.second.gone->load(std::memory_order_acquire);
  });
  if (const auto at = graphs_.find(capture.id); at != graphs_.end()) {
    *graph = &at->second;
    return cudaSuccess;
  }
  Graph made;
  made.gone = std::make_shared<std::atomic<bool>>(false);
  auto held = std::make_unique<Gone>(made.gone);
  cudaUserObject_t object = nullptr;
  cudaError_t e =
      cudaUserObjectCreate(&object, held.get(), &GraphGone, 1, cudaUserObjectNoDestructorSync);
  if (e != cudaSuccess) return e;
  [[maybe_unused]] Gone* const the_objects = held.release();
  e = cudaGraphRetainUserObject(capture.graph, object, 1, cudaGraphUserObjectMove);
  if (e != cudaSuccess) {
    cudaUserObjectRelease(object, 1);
    return e;
  }
  for (const cudaEvent_t event : {replayed_, called_}) {
    cudaGraphNode_t wait = nullptr;
    e = cudaGraphAddEventWaitNode(&wait, capture.graph, nullptr, 0, event);
    if (e != cudaSuccess) return e;
    made.waits.push_back(wait);
  }
  *graph = &graphs_.emplace(capture.id, std::move(made)).first->second;
  return cudaSuccess;
}

cudaError_t GraphOrder::BeforeCaptured(cudaStream_t stream, const Capture& capture) {
  Graph* graph = nullptr;
  if (const cudaError_t e = Find(capture, &graph); e != cudaSuccess) return e;
  if (graph->last.empty()) return AddTips(stream, capture, graph->waits);
  std::vector<cudaGraphNode_t> before;
  for (const Tip& tip : graph->last) {
    if (tip.stream != stream) before.push_back(tip.node);  // on `stream` it comes behind anyway
  }
  return AddTips(stream, capture, std::move(before));
}

cudaError_t GraphOrder::Captured(const Capture& capture, const std::vector<Tip>& tips) {
  Graph* graph = nullptr;
  cudaError_t e = Find(capture, &graph);
  if (e != cudaSuccess) return e;
  if (graph->record == nullptr) {
    e = cudaGraphAddEventRecordNode(&graph->record, capture.graph, nullptr, 0, replayed_);
  }
  for (const Tip& tip : tips) {
    if (e == cudaSuccess)
      e = cudaGraphAddDependencies(capture.graph, &tip.node, &graph->record, nullptr, 1);
  }
  for (const Tip& tip : graph->last) {  // these come before those
    if (e == cudaSuccess)
      e = cudaGraphRemoveDependencies(capture.graph, &tip.node, &graph->record, nullptr, 1);
  }
  graph->last = tips;
  return e;
}

}  // namespace gordian::runtime::cuda
