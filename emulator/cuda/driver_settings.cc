// Settings and queries without effect on an emulated device, and hints.
#include <cstring>

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/device/device_info.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

enum class Link { kHost, kPeer };

// NVLink carries every atomic operation; the link to the host carries none (native atomics: 0).
CUresult AtomicCapabilities(unsigned* capabilities, const CUatomicOperation* operations,
                            unsigned count, Link link) {
  if (capabilities == nullptr || operations == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  constexpr unsigned kWords = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;
  constexpr unsigned kIntegers = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED;
  for (unsigned i = 0; i < count; ++i) {
    unsigned can = kWords;
    switch (operations[i]) {
      case CU_ATOMIC_OPERATION_INTEGER_ADD:
      case CU_ATOMIC_OPERATION_INTEGER_MIN:
      case CU_ATOMIC_OPERATION_INTEGER_MAX:
        can |= kIntegers | CU_ATOMIC_CAPABILITY_REDUCTION;
        break;
      case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
      case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
        can |= CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_REDUCTION;
        break;
      case CU_ATOMIC_OPERATION_EXCHANGE:
      case CU_ATOMIC_OPERATION_CAS:
        can |= CU_ATOMIC_CAPABILITY_SCALAR_128;
        break;
      default:
        can |= CU_ATOMIC_CAPABILITY_REDUCTION;
        break;
    }
    capabilities[i] = link == Link::kPeer ? can : 0;
  }
  return CUDA_SUCCESS;
}

}  // namespace

// Functions that CUDA 13's headers no longer declare.
extern "C" {
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device);
}

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

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned* capabilities,
                                          const CUatomicOperation* operations, unsigned count,
                                          CUdevice from, CUdevice to) {
  GORDIAN_EMU_CHECK(CheckDevice(from));
  GORDIAN_EMU_CHECK(CheckDevice(to));
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  return AtomicCapabilities(capabilities, operations, count, Link::kPeer);
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned* capabilities,
                                           const CUatomicOperation* operations, unsigned count,
                                           CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return AtomicCapabilities(capabilities, operations, count, Link::kHost);
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceShape shape{TheEngine().SmCount(), TheEngine().PhysicalDevice(device)};
  const auto get = [&shape](int attribute) {
    int value = 0;
    DeviceAttribute(shape, attribute, &value);
    return value;
  };
  properties->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    properties->maxGridSize[i] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  properties->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
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

// Banks have one size since compute capability 5: setting it is taken, and changes nothing.
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  GORDIAN_EMU_CHECK(CheckContext());
  return config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                 config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Remote writes are visible at once: there is nothing to flush.
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
  GORDIAN_EMU_CHECK(CheckContext());
  return target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                 (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                  scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CheckContext(); }
CUresult cuCtxResetPersistingL2Cache(void) { return CheckContext(); }
CUresult cuProfilerStart(void) { return CheckContext(); }
CUresult cuProfilerStop(void) { return CheckContext(); }

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const bool known = TheEngine().FindMemory(Pointer(address), &found);
  for (unsigned i = 0; i < count; ++i) {
    // For an unknown pointer this form returns zeros.
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

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool synchronises = *static_cast<const unsigned*>(value) != 0;
  return Result(TheEngine().SetSynchronises(Pointer(address), synchronises));
}

}  // extern "C"
