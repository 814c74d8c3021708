// What can be asked and set without any effect on an emulated device, and hints.
#include <cstring>

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/device_info.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult CheckManaged(CUdeviceptr address, size_t bytes) {
  Allocation found;
  if (bytes == 0 || !TheEngine().FindMemory(Pointer(address), &found) ||
      found.kind != MemoryKind::kManaged || address + bytes > found.base + found.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  GORDIAN_EMU_CHECK(CheckDevice(from));
  GORDIAN_EMU_CHECK(CheckDevice(to));
  if (value == nullptr || from == to) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
  }
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < TheEngine().DeviceCount(); ++i) {
    char known[32];
    PciBusId(TheEngine().PhysicalDevice(i), known, sizeof(known));
    if (strcasecmp(known, text) != 0) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  GORDIAN_EMU_CHECK(
      cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  GORDIAN_EMU_CHECK(CheckInitialized());
  const int found = TheEngine().DeviceOfContext(context);
  if (found < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = found;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  CUdevice device = 0;
  GORDIAN_EMU_CHECK(cuCtxGetDevice_v2(&device, context));
  return Result(TheEngine().SynchronizeDevice(device));
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (context == nullptr) context = static_cast<CUcontext>(TheEngine().CurrentContext());
  if (TheEngine().DeviceOfContext(context) < 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = reinterpret_cast<uintptr_t>(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned) { return CheckContext(); }

CUresult cuCtxSetLimit(CUlimit limit, size_t) {
  GORDIAN_EMU_CHECK(CheckContext());
  return limit < CU_LIMIT_MAX ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr size_t kLimits[] = {1024, 8650752, 8388608, 0, 2048, 64, 11796480};
  if (limit >= sizeof(kLimits) / sizeof(kLimits[0])) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = kLimits[limit];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CheckContext(); }
CUresult cuCtxResetPersistingL2Cache(void) { return CheckContext(); }
CUresult cuProfilerStart(void) { return CheckContext(); }
CUresult cuProfilerStop(void) { return CheckContext(); }

// One set of these a stream, which nothing reads but the program.
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  int priority = 0;
  GORDIAN_EMU_CHECK(cuStreamGetPriority(stream, &priority));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memset(value, 0, sizeof(*value));
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = priority;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = CU_SYNC_POLICY_AUTO;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Managed memory is everywhere already.
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation, unsigned flags,
                               CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  StreamInfo info;
  GORDIAN_EMU_CHECK(Result(TheEngine().DescribeStream(stream, &info)));
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : CheckManaged(address, bytes);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                    unsigned flags, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, location, flags, PerThread(stream));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return CheckManaged(address, bytes);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
                                unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  constexpr unsigned kKnown = CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE;
  if (flags == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  return CheckManaged(address, bytes == 0 ? 1 : bytes);
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t bytes,
                                     unsigned flags) {
  return cuStreamAttachMemAsync(PerThread(stream), address, bytes, flags);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const bool known = TheEngine().FindMemory(Pointer(address), &found);
  for (unsigned i = 0; i < count; ++i) {
    // Of a pointer that CUDA does not know, this form tells zeros.
    if (known && cuPointerGetAttribute(data[i], attributes[i], address) == CUDA_SUCCESS) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *static_cast<unsigned*>(data[i]) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data[i]) = -2;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<uint64_t*>(data[i]) = 0;
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
