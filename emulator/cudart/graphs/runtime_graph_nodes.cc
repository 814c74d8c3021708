// Nodes of graphs: creation, queries and changes, also in executable graphs.
#include <cstring>

#include "emulator/cudart/graphs/runtime_graph_common.h"
#include "emulator/cudart/registry.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

cudaError_t Add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                size_t count, NodeParams* params, const cudaGraphEdgeData* edges = nullptr) {
  return Return(
      Graphs().AddNode(graph, {Handles(after), Edges(edges), count}, params, Handles(node)));
}

template <typename Params>
cudaError_t AddFrom(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                    size_t count, const Params* from) {
  NodeParams params;
  const cudaError_t error = ToParams(from, &params);
  return error != cudaSuccess ? Return(error) : Add(node, graph, after, count, &params);
}

// cudaErrorInvalidValue unless the node is of that type.
cudaError_t Get(cudaGraphNode_t node, NodeType type, NodeParams* params) {
  const int status = Graphs().GetParams(node, params);
  if (status != kSuccess) return Return(status);
  return Return(params->type == type ? cudaSuccess : cudaErrorInvalidValue);
}

template <typename Params>
cudaError_t GetInto(cudaGraphNode_t node, NodeType type, Params* to) {
  if (to == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, type, &params);
  if (error == cudaSuccess) FromParams(params, to);
  return error;
}

template <typename Params>
cudaError_t SetFrom(cudaGraphNode_t node, const Params* from) {
  NodeParams params;
  const cudaError_t error = ToParams(from, &params);
  return Return(error != cudaSuccess ? error
                                     : static_cast<cudaError_t>(Graphs().SetParams(node, params)));
}

template <typename Params>
cudaError_t ExecSetFrom(cudaGraphExec_t exec, cudaGraphNode_t node, const Params* from) {
  NodeParams params;
  const cudaError_t error = ToParams(from, &params);
  return Return(error != cudaSuccess
                    ? error
                    : static_cast<cudaError_t>(Graphs().SetExecParams(exec, node, params)));
}

NodeParams EventParams(NodeType type, cudaEvent_t event) {
  NodeParams params;
  params.type = type;
  params.event = event;
  return params;
}

cudaError_t GetEvent(cudaGraphNode_t node, NodeType type, cudaEvent_t* event) {
  if (event == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, type, &params);
  if (error == cudaSuccess) *event = static_cast<cudaEvent_t>(params.event);
  return error;
}

// A copy between memory and a device variable.
cudaError_t SymbolParams(const void* symbol, void* other, size_t bytes, size_t offset,
                         cudaMemcpyKind kind, bool to_symbol, NodeParams* params) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  void* address = nullptr;
  size_t size = 0;
  const cudaError_t error = FindSymbol(symbol, &address, &size);
  if (error != cudaSuccess) return error;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  char* const place = static_cast<char*>(address) + offset;
  *params = to_symbol ? CopyOf(place, other, bytes, kind) : CopyOf(other, place, bytes, kind);
  return cudaSuccess;
}

cudaError_t Set(cudaGraphNode_t node, cudaError_t error, const NodeParams& params) {
  return Return(error != cudaSuccess ? error
                                     : static_cast<cudaError_t>(Graphs().SetParams(node, params)));
}

cudaError_t ExecSet(cudaGraphExec_t exec, cudaGraphNode_t node, cudaError_t error,
                    const NodeParams& params) {
  return Return(error != cudaSuccess
                    ? error
                    : static_cast<cudaError_t>(Graphs().SetExecParams(exec, node, params)));
}

cudaError_t CheckKind(cudaMemcpyKind kind) {
  return kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection
                                                                 : cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  if (type == nullptr) return Return(cudaErrorInvalidValue);
  NodeType found = NodeType::kEmpty;
  const int status = Graphs().GetType(node, &found);
  if (status == kSuccess) *type = static_cast<cudaGraphNodeType>(found);
  return Return(status);
}

// --- Nodes of any type ---

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges, size_t count,
                             cudaGraphNodeParams* from) {
  NodeParams params;
  cudaError_t error = ToParams(from, &params);
  if (error != cudaSuccess) return Return(error);
  error = Add(node, graph, after, count, &params, edges);
  if (error != cudaSuccess) return error;
  if (params.type == NodeType::kAlloc) from->alloc.dptr = params.alloc.pointer;
  if (params.type == NodeType::kGraph) {
    Graphs().GetParams(*node, &params);
    from->graph.graph = static_cast<cudaGraph_t>(params.child);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* from) {
  return SetFrom(node, static_cast<const cudaGraphNodeParams*>(from));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* from) {
  return ExecSetFrom(exec, node, static_cast<const cudaGraphNodeParams*>(from));
}

// --- Kernels ---

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaKernelNodeParams* from) {
  return AddFrom(node, graph, after, count, from);
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* to) {
  if (to == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, NodeType::kKernel, &params);
  return error != cudaSuccess ? error : Return(FromParams(params, to));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* from) {
  return SetFrom(node, from);
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* from) {
  return ExecSetFrom(exec, node, from);
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            cudaLaunchAttributeValue* value) {
  static_assert(sizeof(cudaLaunchAttributeValue) == 64);
  return Return(Graphs().GetAttribute(node, attribute, value));
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            const cudaLaunchAttributeValue* value) {
  return Return(Graphs().SetAttribute(node, attribute, value));
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return Return(Graphs().CopyAttributes(to, from));
}

// --- Copies ---

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemcpy3DParms* from) {
  return AddFrom(node, graph, after, count, from);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count, void* to,
                                     const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = CheckKind(kind);
  if (error != cudaSuccess) return Return(error);
  NodeParams params = CopyOf(to, from, bytes, kind);
  return Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* after, size_t count,
                                           const void* symbol, const void* from, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error =
      SymbolParams(symbol, const_cast<void*>(from), bytes, offset, kind, true, &params);
  return error != cudaSuccess ? Return(error) : Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* after, size_t count, void* to,
                                             const void* symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error = SymbolParams(symbol, to, bytes, offset, kind, false, &params);
  return error != cudaSuccess ? Return(error) : Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* to) {
  return GetInto(node, NodeType::kCopy, to);
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* from) {
  return SetFrom(node, from);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                           size_t bytes, cudaMemcpyKind kind) {
  return Set(node, CheckKind(kind), CopyOf(to, from, bytes, kind));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                 const void* from, size_t bytes, size_t offset,
                                                 cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error =
      SymbolParams(symbol, const_cast<void*>(from), bytes, offset, kind, true, &params);
  return Set(node, error, params);
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to,
                                                   const void* symbol, size_t bytes, size_t offset,
                                                   cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error = SymbolParams(symbol, to, bytes, offset, kind, false, &params);
  return Set(node, error, params);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* from) {
  return ExecSetFrom(exec, node, from);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes,
                                               cudaMemcpyKind kind) {
  return ExecSet(exec, node, CheckKind(kind), CopyOf(to, from, bytes, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const void* symbol, const void* from,
                                                     size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error =
      SymbolParams(symbol, const_cast<void*>(from), bytes, offset, kind, true, &params);
  return ExecSet(exec, node, error, params);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       void* to, const void* symbol, size_t bytes,
                                                       size_t offset, cudaMemcpyKind kind) {
  NodeParams params;
  const cudaError_t error = SymbolParams(symbol, to, bytes, offset, kind, false, &params);
  return ExecSet(exec, node, error, params);
}

// --- Fills and host functions ---

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemsetParams* from) {
  return AddFrom(node, graph, after, count, from);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* to) {
  return GetInto(node, NodeType::kFill, to);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* from) {
  return SetFrom(node, from);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* from) {
  return ExecSetFrom(exec, node, from);
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* after, size_t count,
                                 const cudaHostNodeParams* from) {
  return AddFrom(node, graph, after, count, from);
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* to) {
  return GetInto(node, NodeType::kHost, to);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* from) {
  return SetFrom(node, from);
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* from) {
  return ExecSetFrom(exec, node, from);
}

// --- Graphs in nodes, and nodes without work ---

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* after, size_t count,
                                       cudaGraph_t child) {
  NodeParams params;
  params.type = NodeType::kGraph;
  params.child = child;
  return Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  if (graph == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, NodeType::kGraph, &params);
  if (error == cudaSuccess) *graph = static_cast<cudaGraph_t>(params.child);
  return error;
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  NodeParams params;
  params.type = NodeType::kGraph;
  params.child = child;
  return Return(Graphs().SetExecParams(exec, node, params));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* after, size_t count) {
  NodeParams params;
  return Add(node, graph, after, count, &params);
}

// --- Events ---

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* after, size_t count,
                                        cudaEvent_t event) {
  NodeParams params = EventParams(NodeType::kRecordEvent, event);
  return Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return GetEvent(node, NodeType::kRecordEvent, event);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return Return(Graphs().SetParams(node, EventParams(NodeType::kRecordEvent, event)));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return Return(Graphs().SetExecParams(exec, node, EventParams(NodeType::kRecordEvent, event)));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                      const cudaGraphNode_t* after, size_t count,
                                      cudaEvent_t event) {
  NodeParams params = EventParams(NodeType::kWaitEvent, event);
  return Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return GetEvent(node, NodeType::kWaitEvent, event);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return Return(Graphs().SetParams(node, EventParams(NodeType::kWaitEvent, event)));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return Return(Graphs().SetExecParams(exec, node, EventParams(NodeType::kWaitEvent, event)));
}

// --- Memory ---

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count,
                                     cudaMemAllocNodeParams* from) {
  NodeParams params;
  cudaError_t error = ToParams(from, &params);
  if (error != cudaSuccess) return Return(error);
  error = Add(node, graph, after, count, &params);
  if (error == cudaSuccess) from->dptr = params.alloc.pointer;
  return error;
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* to) {
  if (to == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, NodeType::kAlloc, &params);
  if (error != cudaSuccess) return error;
  *to = {};
  memcpy(&to->poolProps, params.alloc.pool_properties.data(), sizeof(to->poolProps));
  to->accessDescs = reinterpret_cast<const cudaMemAccessDesc*>(params.alloc.told_access);
  to->accessDescCount = params.alloc.access.size();
  to->bytesize = params.alloc.bytes;
  to->dptr = params.alloc.pointer;
  return cudaSuccess;
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* after, size_t count, void* pointer) {
  NodeParams params;
  params.type = NodeType::kFree;
  params.alloc.pointer = pointer;
  return Add(node, graph, after, count, &params);
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  if (pointer == nullptr) return Return(cudaErrorInvalidValue);
  NodeParams params;
  const cudaError_t error = Get(node, NodeType::kFree, &params);
  if (error == cudaSuccess) *static_cast<void**>(pointer) = params.alloc.pointer;
  return error;
}

}  // extern "C"
