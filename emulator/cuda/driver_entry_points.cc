// Driver functions by name: cuGetProcAddress, and libcudart's cudaGetDriverEntryPoint.
#include "emulator/cuda/driver_entry_points.h"

#include <cstring>

#include "emulator/cuda/driver_common.h"

// cuda.h declares these for its internal use only; here only their addresses matter.
#define GORDIAN_EMU_DECLARE(name) extern "C" void name(void)
GORDIAN_EMU_DECLARE(cuCtxCreate_v2);
GORDIAN_EMU_DECLARE(cuStreamGetCaptureInfo_v2);
GORDIAN_EMU_DECLARE(cuStreamSynchronize_ptsz);
GORDIAN_EMU_DECLARE(cuStreamQuery_ptsz);
GORDIAN_EMU_DECLARE(cuStreamWaitEvent_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetFlags_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetPriority_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetId_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetCtx_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetDevice_ptsz);
GORDIAN_EMU_DECLARE(cuStreamIsCapturing_ptsz);
GORDIAN_EMU_DECLARE(cuStreamGetCaptureInfo_v3_ptsz);
GORDIAN_EMU_DECLARE(cuStreamBeginCapture_v2_ptsz);
GORDIAN_EMU_DECLARE(cuStreamEndCapture_ptsz);
GORDIAN_EMU_DECLARE(cuEventRecord_ptsz);
GORDIAN_EMU_DECLARE(cuEventRecordWithFlags_ptsz);
GORDIAN_EMU_DECLARE(cuMemcpy_ptds);
GORDIAN_EMU_DECLARE(cuMemcpyAsync_ptsz);
GORDIAN_EMU_DECLARE(cuMemcpyHtoD_v2_ptds);
GORDIAN_EMU_DECLARE(cuMemcpyDtoH_v2_ptds);
GORDIAN_EMU_DECLARE(cuMemcpyDtoD_v2_ptds);
GORDIAN_EMU_DECLARE(cuMemcpyHtoDAsync_v2_ptsz);
GORDIAN_EMU_DECLARE(cuMemcpyDtoHAsync_v2_ptsz);
GORDIAN_EMU_DECLARE(cuMemcpyDtoDAsync_v2_ptsz);
GORDIAN_EMU_DECLARE(cuMemsetD8_v2_ptds);
GORDIAN_EMU_DECLARE(cuMemsetD32_v2_ptds);
GORDIAN_EMU_DECLARE(cuMemsetD8Async_ptsz);
GORDIAN_EMU_DECLARE(cuMemsetD32Async_ptsz);
GORDIAN_EMU_DECLARE(cuMemAllocAsync_ptsz);
GORDIAN_EMU_DECLARE(cuMemFreeAsync_ptsz);
GORDIAN_EMU_DECLARE(cuLaunchKernel_ptsz);
GORDIAN_EMU_DECLARE(cuLaunchKernelEx_ptsz);
GORDIAN_EMU_DECLARE(cuLaunchHostFunc_ptsz);
GORDIAN_EMU_DECLARE(cuStreamAddCallback_ptsz);
GORDIAN_EMU_DECLARE(cuGraphInstantiateWithParams_ptsz);
GORDIAN_EMU_DECLARE(cuGraphUpload_ptsz);
GORDIAN_EMU_DECLARE(cuGraphLaunch_ptsz);
GORDIAN_EMU_DECLARE(cuStreamBeginCaptureToGraph_ptsz);
GORDIAN_EMU_DECLARE(cuStreamUpdateCaptureDependencies_v2_ptsz);
#undef GORDIAN_EMU_DECLARE

namespace {

struct EntryPoint {
  const char* name;  // without version suffix
  int since;         // CUDA version in which this form of it appeared
  void* function;
  void* per_thread;  // null: there is one form only
};

// `name` is stringised before cuda.h's macros turn it into the current version's symbol.
#define ENTRY(name, since) \
  { #name, since, reinterpret_cast < void*>(&name), nullptr }
#define ENTRY_PER_THREAD(name, since, symbol) \
  { #name, since, reinterpret_cast < void*>(&name), reinterpret_cast < void*>(&symbol) }
#define ENTRY_VERSION(text, since, symbol) \
  { text, since, reinterpret_cast<void*>(&symbol), nullptr }

const EntryPoint kEntryPoints[] = {
    ENTRY(cuInit, 2000),
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuGetErrorString, 6000),
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetCount, 2000),
    ENTRY(cuDeviceGetName, 2000),
    ENTRY(cuDeviceGetAttribute, 2000),
    ENTRY_VERSION("cuDeviceGetUuid", 11040, cuDeviceGetUuid_v2),
    ENTRY(cuDeviceTotalMem, 3020),
    ENTRY(cuDeviceGetPCIBusId, 4010),
    ENTRY(cuDeviceCanAccessPeer, 4000),
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    ENTRY(cuDevicePrimaryCtxRelease, 11000),
    ENTRY(cuDevicePrimaryCtxReset, 11000),
    ENTRY(cuDevicePrimaryCtxGetState, 7000),
    ENTRY(cuDevicePrimaryCtxSetFlags, 11000),
    ENTRY_VERSION("cuCtxCreate", 3020, cuCtxCreate_v2),
    ENTRY_VERSION("cuCtxCreate", 12050, cuCtxCreate_v4),
    ENTRY(cuCtxDestroy, 4000),
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxSetCurrent, 4000),
    ENTRY(cuCtxPushCurrent, 4000),
    ENTRY(cuCtxPopCurrent, 4000),
    ENTRY(cuCtxGetDevice, 2000),
    ENTRY(cuCtxGetFlags, 7000),
    ENTRY(cuCtxGetApiVersion, 3020),
    ENTRY(cuCtxGetStreamPriorityRange, 5050),
    ENTRY(cuCtxSynchronize, 2000),
    ENTRY(cuCtxEnablePeerAccess, 4000),
    ENTRY(cuCtxDisablePeerAccess, 4000),
    ENTRY(cuStreamCreate, 2000),
    ENTRY(cuStreamCreateWithPriority, 5050),
    ENTRY(cuStreamDestroy, 4000),
    ENTRY_PER_THREAD(cuStreamSynchronize, 2000, cuStreamSynchronize_ptsz),
    ENTRY_PER_THREAD(cuStreamQuery, 2000, cuStreamQuery_ptsz),
    ENTRY_PER_THREAD(cuStreamWaitEvent, 3020, cuStreamWaitEvent_ptsz),
    ENTRY_PER_THREAD(cuStreamGetFlags, 5050, cuStreamGetFlags_ptsz),
    ENTRY_PER_THREAD(cuStreamGetPriority, 5050, cuStreamGetPriority_ptsz),
    ENTRY_PER_THREAD(cuStreamGetId, 12000, cuStreamGetId_ptsz),
    ENTRY_PER_THREAD(cuStreamGetCtx, 9020, cuStreamGetCtx_ptsz),
    ENTRY_PER_THREAD(cuStreamGetDevice, 12080, cuStreamGetDevice_ptsz),
    ENTRY_PER_THREAD(cuStreamIsCapturing, 10000, cuStreamIsCapturing_ptsz),
    ENTRY_VERSION("cuStreamGetCaptureInfo", 11030, cuStreamGetCaptureInfo_v2),
    ENTRY_PER_THREAD(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3_ptsz),
    ENTRY_PER_THREAD(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2_ptsz),
    ENTRY_PER_THREAD(cuStreamEndCapture, 10000, cuStreamEndCapture_ptsz),
    ENTRY_PER_THREAD(cuStreamAddCallback, 5000, cuStreamAddCallback_ptsz),
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
    ENTRY(cuEventCreate, 2000),
    ENTRY(cuEventDestroy, 4000),
    ENTRY_PER_THREAD(cuEventRecord, 2000, cuEventRecord_ptsz),
    ENTRY_PER_THREAD(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags_ptsz),
    ENTRY(cuEventQuery, 2000),
    ENTRY(cuEventSynchronize, 2000),
    ENTRY(cuEventElapsedTime, 2000),
    ENTRY(cuMemGetInfo, 3020),
    ENTRY(cuMemAlloc, 3020),
    ENTRY(cuMemAllocManaged, 6000),
    ENTRY_PER_THREAD(cuMemAllocAsync, 11020, cuMemAllocAsync_ptsz),
    ENTRY(cuMemFree, 3020),
    ENTRY_PER_THREAD(cuMemFreeAsync, 11020, cuMemFreeAsync_ptsz),
    ENTRY(cuMemAllocHost, 3020),
    ENTRY(cuMemHostAlloc, 2020),
    ENTRY(cuMemFreeHost, 2000),
    ENTRY(cuMemHostRegister, 6050),
    ENTRY(cuMemHostUnregister, 4000),
    ENTRY(cuMemHostGetDevicePointer, 3020),
    ENTRY(cuMemHostGetFlags, 2030),
    ENTRY(cuMemGetAddressRange, 3020),
    ENTRY(cuPointerGetAttribute, 4000),
    ENTRY_PER_THREAD(cuMemcpy, 4000, cuMemcpy_ptds),
    ENTRY_PER_THREAD(cuMemcpyAsync, 4000, cuMemcpyAsync_ptsz),
    ENTRY_PER_THREAD(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2_ptds),
    ENTRY_PER_THREAD(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2_ptds),
    ENTRY_PER_THREAD(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2_ptds),
    ENTRY_PER_THREAD(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2_ptsz),
    ENTRY_PER_THREAD(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2_ptsz),
    ENTRY_PER_THREAD(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2_ptsz),
    ENTRY(cuMemcpyPeer, 4000),
    ENTRY(cuMemcpyPeerAsync, 4000),
    ENTRY_PER_THREAD(cuMemsetD8, 3020, cuMemsetD8_v2_ptds),
    ENTRY(cuMemsetD16, 3020),
    ENTRY_PER_THREAD(cuMemsetD32, 3020, cuMemsetD32_v2_ptds),
    ENTRY_PER_THREAD(cuMemsetD8Async, 3020, cuMemsetD8Async_ptsz),
    ENTRY(cuMemsetD16Async, 3020),
    ENTRY_PER_THREAD(cuMemsetD32Async, 3020, cuMemsetD32Async_ptsz),
    ENTRY(cuGraphCreate, 10000),
    ENTRY(cuGraphDestroy, 10000),
    ENTRY(cuGraphClone, 10000),
    ENTRY(cuGraphNodeFindInClone, 10000),
    ENTRY(cuGraphGetNodes, 10000),
    ENTRY(cuGraphGetRootNodes, 10000),
    ENTRY(cuGraphGetEdges, 12030),
    ENTRY(cuGraphNodeGetDependencies, 12030),
    ENTRY(cuGraphNodeGetDependentNodes, 12030),
    ENTRY(cuGraphAddDependencies, 12030),
    ENTRY(cuGraphRemoveDependencies, 12030),
    ENTRY(cuGraphDestroyNode, 10000),
    ENTRY(cuGraphDebugDotPrint, 11030),
    ENTRY(cuUserObjectCreate, 11030),
    ENTRY(cuUserObjectRetain, 11030),
    ENTRY(cuUserObjectRelease, 11030),
    ENTRY(cuGraphRetainUserObject, 11030),
    ENTRY(cuGraphReleaseUserObject, 11030),
    ENTRY_VERSION("cuGraphInstantiateWithFlags", 11040, cuGraphInstantiateWithFlags),
    ENTRY(cuGraphInstantiate, 12000),
    ENTRY_PER_THREAD(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams_ptsz),
    ENTRY(cuGraphExecDestroy, 10000),
    ENTRY(cuGraphExecGetFlags, 12000),
    ENTRY(cuGraphExecUpdate, 12000),
    ENTRY(cuGraphNodeSetEnabled, 11060),
    ENTRY(cuGraphNodeGetEnabled, 11060),
    ENTRY_PER_THREAD(cuGraphUpload, 11010, cuGraphUpload_ptsz),
    ENTRY_PER_THREAD(cuGraphLaunch, 10000, cuGraphLaunch_ptsz),
    ENTRY(cuDeviceGraphMemTrim, 11040),
    ENTRY(cuDeviceGetGraphMemAttribute, 11040),
    ENTRY(cuDeviceSetGraphMemAttribute, 11040),
    ENTRY(cuGraphNodeGetType, 10000),
    ENTRY(cuGraphAddNode, 12030),
    ENTRY(cuGraphNodeSetParams, 12020),
    ENTRY(cuGraphExecNodeSetParams, 12020),
    ENTRY(cuGraphAddKernelNode, 12000),
    ENTRY(cuGraphKernelNodeGetParams, 12000),
    ENTRY(cuGraphKernelNodeSetParams, 12000),
    ENTRY(cuGraphExecKernelNodeSetParams, 12000),
    ENTRY(cuGraphKernelNodeGetAttribute, 11000),
    ENTRY(cuGraphKernelNodeSetAttribute, 11000),
    ENTRY(cuGraphKernelNodeCopyAttributes, 11000),
    ENTRY(cuGraphAddMemcpyNode, 10000),
    ENTRY(cuGraphMemcpyNodeGetParams, 10000),
    ENTRY(cuGraphMemcpyNodeSetParams, 10000),
    ENTRY(cuGraphExecMemcpyNodeSetParams, 10020),
    ENTRY(cuGraphAddMemsetNode, 10000),
    ENTRY(cuGraphMemsetNodeGetParams, 10000),
    ENTRY(cuGraphMemsetNodeSetParams, 10000),
    ENTRY(cuGraphExecMemsetNodeSetParams, 10020),
    ENTRY(cuGraphAddHostNode, 10000),
    ENTRY(cuGraphHostNodeGetParams, 10000),
    ENTRY(cuGraphHostNodeSetParams, 10000),
    ENTRY(cuGraphExecHostNodeSetParams, 10020),
    ENTRY(cuGraphAddChildGraphNode, 10000),
    ENTRY(cuGraphChildGraphNodeGetGraph, 10000),
    ENTRY(cuGraphExecChildGraphNodeSetParams, 11010),
    ENTRY(cuGraphAddEmptyNode, 10000),
    ENTRY(cuGraphAddEventRecordNode, 11010),
    ENTRY(cuGraphEventRecordNodeGetEvent, 11010),
    ENTRY(cuGraphEventRecordNodeSetEvent, 11010),
    ENTRY(cuGraphExecEventRecordNodeSetEvent, 11010),
    ENTRY(cuGraphAddEventWaitNode, 11010),
    ENTRY(cuGraphEventWaitNodeGetEvent, 11010),
    ENTRY(cuGraphEventWaitNodeSetEvent, 11010),
    ENTRY(cuGraphExecEventWaitNodeSetEvent, 11010),
    ENTRY(cuGraphAddMemAllocNode, 11040),
    ENTRY(cuGraphMemAllocNodeGetParams, 11040),
    ENTRY(cuGraphAddMemFreeNode, 11040),
    ENTRY(cuGraphMemFreeNodeGetParams, 11040),
    ENTRY_PER_THREAD(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph_ptsz),
    ENTRY_PER_THREAD(cuStreamUpdateCaptureDependencies, 12030,
                     cuStreamUpdateCaptureDependencies_v2_ptsz),
    ENTRY_PER_THREAD(cuLaunchKernel, 4000, cuLaunchKernel_ptsz),
    ENTRY_PER_THREAD(cuLaunchKernelEx, 11060, cuLaunchKernelEx_ptsz),
    ENTRY_PER_THREAD(cuLaunchHostFunc, 10000, cuLaunchHostFunc_ptsz),
    ENTRY(cuGetProcAddress, 12000),
};

}  // namespace

extern "C" void* gordianEmuDriverEntryPoint(const char* name, int version, bool per_thread,
                                            int* status) {
  const EntryPoint* best = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (const EntryPoint& entry : kEntryPoints) {
    if (strcmp(entry.name, name) != 0) continue;
    if (entry.since > version) {
      if (best == nullptr) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    } else if (best == nullptr || entry.since > best->since) {
      best = &entry;
      *status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
  }
  if (best == nullptr) return nullptr;
  return per_thread && best->per_thread != nullptr ? best->per_thread : best->function;
}

extern "C" CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                        cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* symbol_status) {
  if (symbol == nullptr || function == nullptr || flags > 2) return CUDA_ERROR_INVALID_VALUE;
  int status = 0;
  *function = gordianEmuDriverEntryPoint(
      symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
  if (symbol_status != nullptr) {
    *symbol_status = static_cast<CUdriverProcAddressQueryResult>(status);
  }
  return CUDA_SUCCESS;
}

#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                     cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
