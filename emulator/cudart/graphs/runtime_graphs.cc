// Whole graphs and executable graphs; runtime_graph_nodes.cc has their nodes.
#include "emulator/cudart/graphs/runtime_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return Return(cudaErrorInvalidValue);
  return Return(Graphs().CreateGraph(reinterpret_cast<void**>(graph)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return Return(Graphs().DestroyGraph(graph)); }

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return Return(Graphs().CloneGraph(graph, reinterpret_cast<void**>(clone)));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                     cudaGraph_t clone) {
  return Return(Graphs().FindInClone(original, clone, Handles(node)));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Return(Graphs().GetNodes(graph, false, Handles(nodes), count));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Return(Graphs().GetNodes(graph, true, Handles(nodes), count));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edges, size_t* count) {
  return Return(Graphs().GetEdges(graph, {Handles(from), Handles(to), Edges(edges), count}));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return Return(Graphs().GetNeighbours(node, false, Handles(nodes), Edges(edges), count));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return Return(Graphs().GetNeighbours(node, true, Handles(nodes), Edges(edges), count));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     size_t count) {
  return Return(Graphs().AddEdges(graph, Handles(from), Handles(to), Edges(edges), count));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                        size_t count) {
  return Return(Graphs().RemoveEdges(graph, Handles(from), Handles(to), Edges(edges), count));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return Return(Graphs().DestroyNode(node));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  return Return(Graphs().PrintDot(graph, path, flags));
}

// --- User objects ---

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return Return(Graphs().CreateUserObject(data, destroy, references, flags,
                                          reinterpret_cast<void**>(object)));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return Return(Graphs().RetainUserObject(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return Return(Graphs().ReleaseUserObject(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  if (flags > cudaGraphUserObjectMove) return Return(cudaErrorInvalidValue);
  return Return(
      Graphs().GraphRetainUserObject(graph, object, count, flags == cudaGraphUserObjectMove));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return Return(Graphs().GraphReleaseUserObject(graph, object, count));
}

// --- Executable graphs ---

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  // Uploading needs a stream, and a launch from the device needs an upload.
  if ((flags & kUploadAtInstantiate) != 0) return Return(cudaErrorInvalidValue);
  return Return(
      Graphs().Instantiate(graph, flags, reinterpret_cast<void**>(exec), nullptr, nullptr));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  if (params == nullptr) return Return(cudaErrorInvalidValue);
  InstantiateResult result = InstantiateResult::kError;
  void* node = nullptr;
  int status =
      Graphs().Instantiate(graph, params->flags, reinterpret_cast<void**>(exec), &result, &node);
  params->result_out = static_cast<cudaGraphInstantiateResult>(result);
  params->errNode_out = static_cast<cudaGraphNode_t>(node);
  if (status == kSuccess && (params->flags & kUploadAtInstantiate) != 0) {
    status = Graphs().Upload(*exec, params->uploadStream);
  }
  return Return(status);
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* params) {
  if (params == nullptr) return Return(cudaErrorInvalidValue);
  const cudaStream_t stream = params->uploadStream;
  params->uploadStream = PerThread(stream);
  const cudaError_t error = cudaGraphInstantiateWithParams(exec, graph, params);
  params->uploadStream = stream;
  return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Return(Graphs().DestroyExec(exec));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  uint64_t found = 0;
  const int status = flags == nullptr ? kInvalidValue : Graphs().GetExecFlags(exec, &found);
  if (status == kSuccess) *flags = found;
  return Return(status);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  UpdateInfo info;
  const int status = Graphs().UpdateExec(exec, graph, &info);
  if (result != nullptr) {
    result->result = static_cast<cudaGraphExecUpdateResult>(info.result);
    result->errorNode = static_cast<cudaGraphNode_t>(info.error_node);
    result->errorFromNode = static_cast<cudaGraphNode_t>(info.error_from_node);
  }
  return Return(status);
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return Return(Graphs().SetEnabled(exec, node, enabled != 0));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  bool found = false;
  const int status = enabled == nullptr ? kInvalidValue : Graphs().GetEnabled(exec, node, &found);
  if (status == kSuccess) *enabled = found ? 1 : 0;
  return Return(status);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return Return(Graphs().Upload(exec, stream));
}
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphUpload(exec, PerThread(stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  TheEngine().CountCall("cudaGraphLaunch");
  return Return(Graphs().Launch(exec, stream));
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  TheEngine().CountCall("cudaGraphLaunch_ptsz");
  return Return(Graphs().Launch(exec, PerThread(stream)));
}

// --- Memory of graphs ---

cudaError_t cudaDeviceGraphMemTrim(int device) {
  const cudaError_t error = CheckDevice(device);
  return Return(error != cudaSuccess ? error
                                     : static_cast<cudaError_t>(Graphs().TrimMemory(device)));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  return Return(Graphs().GetMemoryAttribute(device, static_cast<GraphMemory>(attribute),
                                            static_cast<uint64_t*>(value)));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  return Return(Graphs().SetMemoryAttribute(device, static_cast<GraphMemory>(attribute),
                                            *static_cast<uint64_t*>(value)));
}

}  // extern "C"
