// Stream capture.
#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

Dependencies DependenciesOf(const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count) {
  return {Handles(nodes), Edges(edges), count};
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(Graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), nullptr, {}));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* edges, size_t count,
                                     CUstreamCaptureMode mode) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(Graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), graph,
                                      DependenciesOf(nodes, edges, count)));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(Graphs().EndCapture(stream, reinterpret_cast<void**>(graph)));
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CaptureInfo info;
  GORDIAN_EMU_CHECK(Result(Graphs().GetCaptureInfo(stream, &info)));
  *status = static_cast<CUstreamCaptureStatus>(info.status);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, size_t* count) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (status == nullptr || (edges != nullptr && nodes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  CaptureInfo info;
  GORDIAN_EMU_CHECK(Result(Graphs().GetCaptureInfo(stream, &info)));
  if (info.lossy && nodes != nullptr && edges == nullptr) return CUDA_ERROR_LOSSY_QUERY;
  *status = static_cast<CUstreamCaptureStatus>(info.status);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = static_cast<CUgraph>(info.graph);
  if (nodes != nullptr) *nodes = reinterpret_cast<const CUgraphNode*>(info.dependencies);
  if (edges != nullptr) *edges = reinterpret_cast<const CUgraphEdgeData*>(info.edges);
  if (count != nullptr) *count = info.count;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                              const CUgraphEdgeData* edges, size_t count,
                                              unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  return Result(Graphs().UpdateDependencies(stream, DependenciesOf(nodes, edges, count),
                                            flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *mode = static_cast<CUstreamCaptureMode>(
      Graphs().ExchangeThreadMode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(PerThread(stream), mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(PerThread(stream), graph, nodes, edges, count, mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return cuStreamEndCapture(PerThread(stream), graph);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(PerThread(stream), status);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                        const CUgraphEdgeData** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v3(PerThread(stream), status, id, graph, nodes, edges, count);
}
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode* nodes,
                                                   const CUgraphEdgeData* edges, size_t count,
                                                   unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(PerThread(stream), nodes, edges, count, flags);
}

}  // extern "C"
