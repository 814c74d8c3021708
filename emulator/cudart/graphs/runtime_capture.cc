// Stream capture.
#include "emulator/cudart/graphs/runtime_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

Dependencies DependenciesOf(const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                            size_t count) {
  return {Handles(nodes), Edges(edges), count};
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Return(Graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), nullptr, {}));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* nodes,
                                          const cudaGraphEdgeData* edges, size_t count,
                                          cudaStreamCaptureMode mode) {
  if (graph == nullptr) return Return(cudaErrorInvalidValue);
  return Return(Graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), graph,
                                      DependenciesOf(nodes, edges, count)));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Return(Graphs().EndCapture(stream, reinterpret_cast<void**>(graph)));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return Return(cudaErrorInvalidValue);
  CaptureInfo info;
  const int failed = Graphs().GetCaptureInfo(stream, &info);
  if (failed == kSuccess) *status = static_cast<cudaStreamCaptureStatus>(info.status);
  return Return(failed);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  if (status == nullptr || (edges != nullptr && nodes == nullptr)) {
    return Return(cudaErrorInvalidValue);
  }
  CaptureInfo info;
  const int failed = Graphs().GetCaptureInfo(stream, &info);
  if (failed != kSuccess) return Return(failed);
  if (info.lossy && nodes != nullptr && edges == nullptr) return Return(cudaErrorLossyQuery);
  *status = static_cast<cudaStreamCaptureStatus>(info.status);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = static_cast<cudaGraph_t>(info.graph);
  if (nodes != nullptr) *nodes = reinterpret_cast<const cudaGraphNode_t*>(info.dependencies);
  if (edges != nullptr) *edges = reinterpret_cast<const cudaGraphEdgeData*>(info.edges);
  if (count != nullptr) *count = info.count;
  return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, size_t count,
                                                unsigned flags) {
  if (flags > cudaStreamSetCaptureDependencies) return Return(cudaErrorInvalidValue);
  return Return(Graphs().UpdateDependencies(stream, DependenciesOf(nodes, edges, count),
                                            flags == cudaStreamSetCaptureDependencies));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
      *mode > cudaStreamCaptureModeRelaxed) {
    return Return(cudaErrorInvalidValue);
  }
  *mode = static_cast<cudaStreamCaptureMode>(
      Graphs().ExchangeThreadMode(static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(PerThread(stream), mode);
}
cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t* nodes,
                                               const cudaGraphEdgeData* edges, size_t count,
                                               cudaStreamCaptureMode mode) {
  return cudaStreamBeginCaptureToGraph(PerThread(stream), graph, nodes, edges, count, mode);
}
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(PerThread(stream), graph);
}
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(PerThread(stream), status);
}
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                          unsigned long long* id, cudaGraph_t* graph,
                                          const cudaGraphNode_t** nodes,
                                          const cudaGraphEdgeData** edges, size_t* count) {
  return cudaStreamGetCaptureInfo(PerThread(stream), status, id, graph, nodes, edges, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                     const cudaGraphEdgeData* edges, size_t count,
                                                     unsigned flags) {
  return cudaStreamUpdateCaptureDependencies(PerThread(stream), nodes, edges, count, flags);
}

}  // extern "C"
