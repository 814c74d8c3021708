#include "emulator/cudart/graphs/runtime_graph_params.h"

#include <cstring>

namespace gordian::emu {
namespace {

CopyEnd End(const cudaPitchedPtr& pointer, const cudaPos& position) {
  CopyEnd end;
  end.pointer = pointer.ptr;
  end.pitch = pointer.pitch;
  end.row_bytes = pointer.xsize;
  end.height = pointer.ysize;
  end.x = position.x;
  end.y = position.y;
  end.z = position.z;
  return end;
}

template <typename Params>
cudaError_t KernelToParams(const Params& from, NodeParams* to) {
  to->type = NodeType::kKernel;
  const dim3 grid(from.gridDim.x, from.gridDim.y, from.gridDim.z);
  const dim3 block(from.blockDim.x, from.blockDim.y, from.blockDim.z);
  return MakeKernelParams(from.func, grid, block, from.sharedMemBytes, from.kernelParams,
                          &to->kernel);
}

template <typename Params>
cudaError_t MemsetToParams(const Params& from, NodeParams* to) {
  to->type = NodeType::kFill;
  to->fill.to = from.dst;
  to->fill.pitch = from.pitch;
  to->fill.value = from.value;
  to->fill.element_bytes = from.elementSize;
  to->fill.width = from.width;
  to->fill.height = from.height;
  return cudaSuccess;
}

template <typename Params>
cudaError_t AllocToParams(const Params& from, NodeParams* to) {
  to->type = NodeType::kAlloc;
  if (from.poolProps.allocType != cudaMemAllocationTypePinned ||
      from.poolProps.handleTypes != cudaMemHandleTypeNone ||
      from.poolProps.location.type != cudaMemLocationTypeDevice) {
    return cudaErrorInvalidValue;
  }
  to->alloc.bytes = from.bytesize;
  to->alloc.device = from.poolProps.location.id;
  static_assert(sizeof(from.poolProps) <= sizeof(to->alloc.pool_properties));
  memcpy(to->alloc.pool_properties.data(), &from.poolProps, sizeof(from.poolProps));
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(to->alloc.access[0]));
  if (from.accessDescCount > 0 && from.accessDescs == nullptr) return cudaErrorInvalidValue;
  to->alloc.access.resize(from.accessDescCount);
  if (from.accessDescCount > 0) {
    memcpy(to->alloc.access.data(), from.accessDescs,
           from.accessDescCount * sizeof(cudaMemAccessDesc));
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t ToParams(const cudaKernelNodeParams* from, NodeParams* to) {
  return from == nullptr ? cudaErrorInvalidValue : KernelToParams(*from, to);
}

cudaError_t ToParams(const cudaMemcpy3DParms* from, NodeParams* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  if (from->srcArray != nullptr || from->dstArray != nullptr) return cudaErrorNotSupported;
  if (from->kind < cudaMemcpyHostToHost || from->kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  to->type = NodeType::kCopy;
  to->copy.from = End(from->srcPtr, from->srcPos);
  to->copy.to = End(from->dstPtr, from->dstPos);
  to->copy.width = from->extent.width;
  to->copy.height = from->extent.height;
  to->copy.depth = from->extent.depth;
  to->copy.kind = static_cast<CopyKind>(from->kind);
  return cudaSuccess;
}

NodeParams CopyOf(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpy3DParms parms = {};
  parms.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  parms.dstPtr = {to, bytes, bytes, 1};
  parms.extent = {bytes, 1, 1};
  parms.kind = kind;
  NodeParams params;
  ToParams(&parms, &params);
  return params;
}

cudaError_t ToParams(const cudaMemsetParams* from, NodeParams* to) {
  return from == nullptr ? cudaErrorInvalidValue : MemsetToParams(*from, to);
}

cudaError_t ToParams(const cudaHostNodeParams* from, NodeParams* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  to->type = NodeType::kHost;
  to->host = {from->fn, from->userData};
  return cudaSuccess;
}

cudaError_t ToParams(const cudaMemAllocNodeParams* from, NodeParams* to) {
  return from == nullptr ? cudaErrorInvalidValue : AllocToParams(*from, to);
}

cudaError_t ToParams(const cudaGraphNodeParams* from, NodeParams* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  if (from->reserved2 != 0) return cudaErrorInvalidValue;
  to->type = static_cast<NodeType>(from->type);
  switch (from->type) {
    case cudaGraphNodeTypeKernel:
      return KernelToParams(from->kernel, to);
    case cudaGraphNodeTypeMemcpy:
      return from->memcpy.flags != 0 ? cudaErrorInvalidValue
                                     : ToParams(&from->memcpy.copyParams, to);
    case cudaGraphNodeTypeMemset:
      return MemsetToParams(from->memset, to);
    case cudaGraphNodeTypeHost:
      to->host = {from->host.fn, from->host.userData};
      return cudaSuccess;
    case cudaGraphNodeTypeGraph:
      to->child = from->graph.graph;
      to->move_child = from->graph.ownership == cudaGraphChildGraphOwnershipMove;
      return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
      to->event = from->eventWait.event;
      return cudaSuccess;
    case cudaGraphNodeTypeEventRecord:
      to->event = from->eventRecord.event;
      return cudaSuccess;
    case cudaGraphNodeTypeMemAlloc:
      return AllocToParams(from->alloc, to);
    case cudaGraphNodeTypeMemFree:
      to->alloc.pointer = from->free.dptr;
      return cudaSuccess;
    case cudaGraphNodeTypeEmpty:
      return cudaSuccess;
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
    case cudaGraphNodeTypeConditional:
      return cudaErrorNotSupported;
    default:
      return cudaErrorInvalidValue;
  }
}

// The emulated NCCL's kernels were never registered with this runtime. What the real runtime
// returns for those has not been measured.
cudaError_t FromParams(const NodeParams& from, cudaKernelNodeParams* to) {
  const KernelParams& kernel = from.kernel;
  if (kernel.function == nullptr) return cudaErrorInvalidDeviceFunction;
  *to = {};
  to->func = const_cast<void*>(kernel.function);
  to->gridDim = dim3(kernel.grid[0], kernel.grid[1], kernel.grid[2]);
  to->blockDim = dim3(kernel.block[0], kernel.block[1], kernel.block[2]);
  to->sharedMemBytes = kernel.shared_bytes;
  to->kernelParams = kernel.told_arguments;
  return cudaSuccess;
}

void FromParams(const NodeParams& from, cudaMemcpy3DParms* to) {
  const CopyParams& copy = from.copy;
  *to = {};
  to->srcPtr = {copy.from.pointer, copy.from.pitch, copy.from.row_bytes, copy.from.height};
  to->srcPos = {copy.from.x, copy.from.y, copy.from.z};
  to->dstPtr = {copy.to.pointer, copy.to.pitch, copy.to.row_bytes, copy.to.height};
  to->dstPos = {copy.to.x, copy.to.y, copy.to.z};
  to->extent = {copy.width, copy.height, copy.depth};
  to->kind = static_cast<cudaMemcpyKind>(copy.kind);
}

void FromParams(const NodeParams& from, cudaMemsetParams* to) {
  const FillRequest& fill = from.fill;
  *to = {};
  to->dst = fill.to;
  to->pitch = fill.pitch;
  to->value = fill.value;
  to->elementSize = static_cast<unsigned>(fill.element_bytes);
  to->width = fill.width;
  to->height = fill.height;
}

void FromParams(const NodeParams& from, cudaHostNodeParams* to) {
  *to = {from.host.function, from.host.data};
}

}  // namespace gordian::emu
