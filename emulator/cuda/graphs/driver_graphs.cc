// Whole graphs and executable graphs; driver_graph_nodes.cc has their nodes.
#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Result(Graphs().CreateGraph(reinterpret_cast<void**>(graph)));
}

CUresult cuGraphDestroy(CUgraph graph) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().DestroyGraph(graph));
}

CUresult cuGraphClone(CUgraph* clone, CUgraph graph) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().CloneGraph(graph, reinterpret_cast<void**>(clone)));
}

CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().FindInClone(original, clone, Handles(node)));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GetNodes(graph, false, Handles(nodes), count));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GetNodes(graph, true, Handles(nodes), count));
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edges, size_t* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GetEdges(graph, {Handles(from), Handles(to), Edges(edges), count}));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                       size_t* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GetNeighbours(node, false, Handles(nodes), Edges(edges), count));
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes,
                                         CUgraphEdgeData* edges, size_t* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GetNeighbours(node, true, Handles(nodes), Edges(edges), count));
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, size_t count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().AddEdges(graph, Handles(from), Handles(to), Edges(edges), count));
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edges, size_t count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().RemoveEdges(graph, Handles(from), Handles(to), Edges(edges), count));
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().DestroyNode(node));
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().PrintDot(graph, path, flags));
}

// --- User objects ---

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().CreateUserObject(data, destroy, references, flags,
                                          reinterpret_cast<void**>(object)));
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().RetainUserObject(object, count));
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().ReleaseUserObject(object, count));
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                 unsigned flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (flags > CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
  return Result(
      Graphs().GraphRetainUserObject(graph, object, count, flags == CU_GRAPH_USER_OBJECT_MOVE));
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().GraphReleaseUserObject(graph, object, count));
}

// --- Executable graphs ---

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  // Uploading needs a stream.
  if ((flags & kUploadAtInstantiate) != 0) return CUDA_ERROR_INVALID_VALUE;
  return Result(
      Graphs().Instantiate(graph, flags, reinterpret_cast<void**>(exec), nullptr, nullptr));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  InstantiateResult result = InstantiateResult::kError;
  void* node = nullptr;
  int status =
      Graphs().Instantiate(graph, params->flags, reinterpret_cast<void**>(exec), &result, &node);
  params->result_out = static_cast<CUgraphInstantiateResult>(result);
  params->hErrNode_out = static_cast<CUgraphNode>(node);
  if (status == kSuccess && (params->flags & kUploadAtInstantiate) != 0) {
    status = Graphs().Upload(*exec, params->hUploadStream);
  }
  return Result(status);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUstream stream = params->hUploadStream;
  params->hUploadStream = PerThread(stream);
  const CUresult result = cuGraphInstantiateWithParams(exec, graph, params);
  params->hUploadStream = stream;
  return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().DestroyExec(exec));
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  uint64_t found = 0;
  GORDIAN_EMU_CHECK(Result(Graphs().GetExecFlags(exec, &found)));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = found;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                              CUgraphExecUpdateResultInfo* result) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  UpdateInfo info;
  const int status = Graphs().UpdateExec(exec, graph, &info);
  if (result != nullptr) {
    result->result = static_cast<CUgraphExecUpdateResult>(info.result);
    result->errorNode = static_cast<CUgraphNode>(info.error_node);
    result->errorFromNode = static_cast<CUgraphNode>(info.error_from_node);
  }
  return Result(status);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetEnabled(exec, node, enabled != 0));
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  bool found = false;
  GORDIAN_EMU_CHECK(Result(Graphs().GetEnabled(exec, node, &found)));
  if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *enabled = found ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(Graphs().Upload(exec, stream));
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphUpload(exec, PerThread(stream));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(Graphs().Launch(exec, stream));
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphLaunch(exec, PerThread(stream));
}

// --- Memory of graphs ---

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return Result(Graphs().TrimMemory(device));
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(Graphs().GetMemoryAttribute(device, static_cast<GraphMemory>(attribute),
                                            static_cast<uint64_t*>(value)));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(Graphs().SetMemoryAttribute(device, static_cast<GraphMemory>(attribute),
                                            *static_cast<uint64_t*>(value)));
}

}  // extern "C"
