// Nodes of graphs: creation, queries and changes, also in executable graphs. Returns contexts in
// parameters by their device only.
#include <cstring>

#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult ToEnd(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t height,
               size_t x, size_t y, size_t z, CopyEnd* end) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      end->pointer = const_cast<void*>(host);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      end->pointer = Pointer(device);
      break;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  end->pitch = pitch;
  end->row_bytes = pitch;
  end->height = height;
  end->x = x;
  end->y = y;
  end->z = z;
  end->memory_type = type;
  return CUDA_SUCCESS;
}

CUresult ToParams(const CUDA_MEMCPY3D* from, NodeParams* to) {
  if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  to->type = NodeType::kCopy;
  CopyParams& copy = to->copy;
  GORDIAN_EMU_CHECK(ToEnd(from->srcMemoryType, from->srcHost, from->srcDevice, from->srcPitch,
                          from->srcHeight, from->srcXInBytes, from->srcY, from->srcZ, &copy.from));
  GORDIAN_EMU_CHECK(ToEnd(from->dstMemoryType, from->dstHost, from->dstDevice, from->dstPitch,
                          from->dstHeight, from->dstXInBytes, from->dstY, from->dstZ, &copy.to));
  copy.width = from->WidthInBytes;
  copy.height = from->Height;
  copy.depth = from->Depth;
  const bool to_device = from->dstMemoryType == CU_MEMORYTYPE_DEVICE;
  const bool from_device = from->srcMemoryType == CU_MEMORYTYPE_DEVICE;
  copy.kind = to_device ? (from_device ? CopyKind::kDeviceToDevice : CopyKind::kHostToDevice)
                        : (from_device ? CopyKind::kDeviceToHost : CopyKind::kDefault);
  return CUDA_SUCCESS;
}

void FromParams(const NodeParams& params, CUDA_MEMCPY3D* to) {
  const CopyParams& copy = params.copy;
  *to = {};
  // A node made by the runtime API has no memory types.
  const auto type = [](const CopyEnd& end) {
    return end.memory_type == 0 ? CU_MEMORYTYPE_UNIFIED
                                : static_cast<CUmemorytype>(end.memory_type);
  };
  to->srcMemoryType = type(copy.from);
  if (to->srcMemoryType == CU_MEMORYTYPE_HOST) {
    to->srcHost = copy.from.pointer;
  } else {
    to->srcDevice = reinterpret_cast<CUdeviceptr>(copy.from.pointer);
  }
  to->srcPitch = copy.from.pitch;
  to->srcHeight = copy.from.height;
  to->srcXInBytes = copy.from.x;
  to->srcY = copy.from.y;
  to->srcZ = copy.from.z;
  to->dstMemoryType = type(copy.to);
  if (to->dstMemoryType == CU_MEMORYTYPE_HOST) {
    to->dstHost = copy.to.pointer;
  } else {
    to->dstDevice = reinterpret_cast<CUdeviceptr>(copy.to.pointer);
  }
  to->dstPitch = copy.to.pitch;
  to->dstHeight = copy.to.height;
  to->dstXInBytes = copy.to.x;
  to->dstY = copy.to.y;
  to->dstZ = copy.to.z;
  to->WidthInBytes = copy.width;
  to->Height = copy.height;
  to->Depth = copy.depth;
}

template <typename Memset>
CUresult MemsetToParams(const Memset& from, NodeParams* to) {
  to->type = NodeType::kFill;
  to->fill.to = Pointer(from.dst);
  to->fill.pitch = from.pitch;
  to->fill.value = from.value;
  to->fill.element_bytes = from.elementSize;
  to->fill.width = from.width;
  to->fill.height = from.height;
  return CUDA_SUCCESS;
}

CUresult ToParams(const CUDA_MEMSET_NODE_PARAMS* from, NodeParams* to) {
  return from == nullptr ? CUDA_ERROR_INVALID_VALUE : MemsetToParams(*from, to);
}

CUresult ToParams(const CUDA_HOST_NODE_PARAMS* from, NodeParams* to) {
  if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  to->type = NodeType::kHost;
  to->host = {from->fn, from->userData};
  return CUDA_SUCCESS;
}

template <typename Kernel>
CUresult KernelToParams(const Kernel& from, NodeParams* to) {
  to->type = NodeType::kKernel;
  to->kernel.function = from.func;
  to->kernel.grid = {from.gridDimX, from.gridDimY, from.gridDimZ};
  to->kernel.block = {from.blockDimX, from.blockDimY, from.blockDimZ};
  to->kernel.shared_bytes = from.sharedMemBytes;
  return CheckKernelParams(&to->kernel);
}

CUresult ToParams(const CUDA_KERNEL_NODE_PARAMS* from, NodeParams* to) {
  return from == nullptr ? CUDA_ERROR_INVALID_VALUE : KernelToParams(*from, to);
}

template <typename Alloc>
CUresult AllocToParams(const Alloc& from, NodeParams* to) {
  to->type = NodeType::kAlloc;
  if (from.poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      from.poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      from.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (from.accessDescCount > 0 && from.accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AllocParams& alloc = to->alloc;
  alloc.bytes = from.bytesize;
  alloc.device = from.poolProps.location.id;
  static_assert(sizeof(from.poolProps) <= sizeof(alloc.pool_properties));
  memcpy(alloc.pool_properties.data(), &from.poolProps, sizeof(from.poolProps));
  static_assert(sizeof(CUmemAccessDesc) == sizeof(alloc.access[0]));
  alloc.access.resize(from.accessDescCount);
  if (from.accessDescCount > 0) {
    memcpy(alloc.access.data(), from.accessDescs, from.accessDescCount * sizeof(CUmemAccessDesc));
  }
  return CUDA_SUCCESS;
}

CUresult ToParams(const CUgraphNodeParams* from, NodeParams* to) {
  if (from == nullptr || from->reserved2 != 0) return CUDA_ERROR_INVALID_VALUE;
  to->type = static_cast<NodeType>(from->type);
  switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return KernelToParams(from->kernel, to);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return from->memcpy.flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                     : ToParams(&from->memcpy.copyParams, to);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return MemsetToParams(from->memset, to);
    case CU_GRAPH_NODE_TYPE_HOST:
      to->host = {from->host.fn, from->host.userData};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      to->child = from->graph.graph;
      to->move_child = from->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      to->event = from->eventWait.event;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      to->event = from->eventRecord.event;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return AllocToParams(from->alloc, to);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      to->alloc.pointer = Pointer(from->free.dptr);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Add(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
             NodeParams* params, const CUgraphEdgeData* edges = nullptr) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Result(
      Graphs().AddNode(graph, {Handles(after), Edges(edges), count}, params, Handles(node)));
}

template <typename Params>
CUresult AddFrom(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                 const Params* from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  NodeParams params;
  GORDIAN_EMU_CHECK(ToParams(from, &params));
  return Add(node, graph, after, count, &params);
}

template <typename Params>
CUresult SetFrom(CUgraphNode node, const Params* from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  NodeParams params;
  GORDIAN_EMU_CHECK(ToParams(from, &params));
  return Result(Graphs().SetParams(node, params));
}

template <typename Params>
CUresult ExecSetFrom(CUgraphExec exec, CUgraphNode node, const Params* from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  NodeParams params;
  GORDIAN_EMU_CHECK(ToParams(from, &params));
  return Result(Graphs().SetExecParams(exec, node, params));
}

// CUDA_ERROR_INVALID_VALUE unless the node is of that type.
CUresult Get(CUgraphNode node, NodeType type, const void* to, NodeParams* params) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(Result(Graphs().GetParams(node, params)));
  return params->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

NodeParams EventParams(NodeType type, CUevent event) {
  NodeParams params;
  params.type = type;
  params.event = event;
  return params;
}

CUresult GetEvent(CUgraphNode node, NodeType type, CUevent* event) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, type, event, &params));
  *event = static_cast<CUevent>(params.event);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeType found = NodeType::kEmpty;
  GORDIAN_EMU_CHECK(Result(Graphs().GetType(node, &found)));
  *type = static_cast<CUgraphNodeType>(found);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  NodeParams params;
  GORDIAN_EMU_CHECK(ToParams(from, &params));
  GORDIAN_EMU_CHECK(Add(node, graph, after, count, &params, edges));
  if (params.type == NodeType::kAlloc) {
    from->alloc.dptr = reinterpret_cast<CUdeviceptr>(params.alloc.pointer);
  }
  if (params.type == NodeType::kGraph) {
    Graphs().GetParams(*node, &params);
    from->graph.graph = static_cast<CUgraph>(params.child);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* from) {
  return SetFrom(node, static_cast<const CUgraphNodeParams*>(from));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* from) {
  return ExecSetFrom(exec, node, static_cast<const CUgraphNodeParams*>(from));
}

// --- Kernels ---

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* from) {
  return AddFrom(node, graph, after, count, from);
}

// The runtime API's function value, only good for comparisons.
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* to) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kKernel, to, &params));
  const KernelParams& kernel = params.kernel;
  *to = {};
  to->func = reinterpret_cast<CUfunction>(const_cast<void*>(kernel.function));
  to->gridDimX = kernel.grid[0];
  to->gridDimY = kernel.grid[1];
  to->gridDimZ = kernel.grid[2];
  to->blockDimX = kernel.block[0];
  to->blockDimY = kernel.block[1];
  to->blockDimZ = kernel.block[2];
  to->sharedMemBytes = kernel.shared_bytes;
  to->kernelParams = kernel.told_arguments;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* from) {
  return SetFrom(node, from);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* from) {
  return ExecSetFrom(exec, node, from);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue* value) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  static_assert(sizeof(CUkernelNodeAttrValue) == 64);
  return Result(Graphs().GetAttribute(node, attribute, value));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetAttribute(node, attribute, value));
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().CopyAttributes(to, from));
}

// --- Copies ---

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_MEMCPY3D* from, CUcontext) {
  return AddFrom(node, graph, after, count, from);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* to) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kCopy, to, &params));
  FromParams(params, to);
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* from) {
  return SetFrom(node, from);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* from, CUcontext) {
  return ExecSetFrom(exec, node, from);
}

// --- Fills and host functions ---

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* from, CUcontext) {
  return AddFrom(node, graph, after, count, from);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* to) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kFill, to, &params));
  const FillRequest& fill = params.fill;
  *to = {reinterpret_cast<CUdeviceptr>(fill.to),    fill.pitch, fill.value,
         static_cast<unsigned>(fill.element_bytes), fill.width, fill.height};
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from) {
  return SetFrom(node, from);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* from, CUcontext) {
  return ExecSetFrom(exec, node, from);
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                            size_t count, const CUDA_HOST_NODE_PARAMS* from) {
  return AddFrom(node, graph, after, count, from);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* to) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kHost, to, &params));
  *to = {params.host.function, params.host.data};
  return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from) {
  return SetFrom(node, from);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* from) {
  return ExecSetFrom(exec, node, from);
}

// --- Graphs in nodes, and nodes without work ---

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                  size_t count, CUgraph child) {
  NodeParams params;
  params.type = NodeType::kGraph;
  params.child = child;
  return Add(node, graph, after, count, &params);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kGraph, graph, &params));
  *graph = static_cast<CUgraph>(params.child);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  NodeParams params;
  params.type = NodeType::kGraph;
  params.child = child;
  return Result(Graphs().SetExecParams(exec, node, params));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                             size_t count) {
  NodeParams params;
  return Add(node, graph, after, count, &params);
}

// --- Events ---

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                   size_t count, CUevent event) {
  NodeParams params = EventParams(NodeType::kRecordEvent, event);
  return Add(node, graph, after, count, &params);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, NodeType::kRecordEvent, event);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetParams(node, EventParams(NodeType::kRecordEvent, event)));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetExecParams(exec, node, EventParams(NodeType::kRecordEvent, event)));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                 size_t count, CUevent event) {
  NodeParams params = EventParams(NodeType::kWaitEvent, event);
  return Add(node, graph, after, count, &params);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, NodeType::kWaitEvent, event);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetParams(node, EventParams(NodeType::kWaitEvent, event)));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(Graphs().SetExecParams(exec, node, EventParams(NodeType::kWaitEvent, event)));
}

// --- Memory ---

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* from) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeParams params;
  GORDIAN_EMU_CHECK(AllocToParams(*from, &params));
  GORDIAN_EMU_CHECK(Add(node, graph, after, count, &params));
  from->dptr = reinterpret_cast<CUdeviceptr>(params.alloc.pointer);
  return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* to) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kAlloc, to, &params));
  *to = {};
  memcpy(&to->poolProps, params.alloc.pool_properties.data(), sizeof(to->poolProps));
  to->accessDescs = static_cast<const CUmemAccessDesc*>(params.alloc.told_access);
  to->accessDescCount = params.alloc.access.size();
  to->bytesize = params.alloc.bytes;
  to->dptr = reinterpret_cast<CUdeviceptr>(params.alloc.pointer);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                               size_t count, CUdeviceptr address) {
  NodeParams params;
  params.type = NodeType::kFree;
  params.alloc.pointer = Pointer(address);
  return Add(node, graph, after, count, &params);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  NodeParams params;
  GORDIAN_EMU_CHECK(Get(node, NodeType::kFree, address, &params));
  *address = reinterpret_cast<CUdeviceptr>(params.alloc.pointer);
  return CUDA_SUCCESS;
}

}  // extern "C"
