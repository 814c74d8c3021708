// Errors, versions and devices.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "emulator/cuda/driver_entry_points.h"
#include "emulator/cuda/driver_logs.h"
#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/device/device_info.h"

namespace gordian::emu {

cudaError_t& LastError() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t NotEmulated(const char* call) {
  gordianEmuSayNotEmulated(call);
  return Return(cudaErrorNotSupported);
}

}  // namespace gordian::emu

using namespace gordian::emu;  // NOLINT: every line below uses it

namespace {

int Attribute(int device, int attribute) {
  const DeviceShape shape{TheEngine().SmCount(), TheEngine().PhysicalDevice(device)};
  int value = 0;
  DeviceAttribute(shape, attribute, &value);
  return value;
}

cudaError_t DriverEntryPoint(const char* symbol, void** function, int version,
                             unsigned long long flags, bool per_thread,
                             cudaDriverEntryPointQueryResult* result) {
  if (symbol == nullptr || function == nullptr || flags > cudaEnablePerThreadDefaultStream) {
    return Return(cudaErrorInvalidValue);
  }
  if (flags == cudaEnableLegacyStream) per_thread = false;
  if (flags == cudaEnablePerThreadDefaultStream) per_thread = true;
  int status = 0;
  *function = gordianEmuDriverEntryPoint(symbol, version, per_thread, &status);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(status);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = LastError();
  LastError() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return LastError(); }

const char* cudaGetErrorString(cudaError_t error) {
  const StatusText* text = FindStatusText(error);
  return text != nullptr && text->runtime_name != nullptr ? text->text : "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  const StatusText* text = FindStatusText(error);
  return text != nullptr && text->runtime_name != nullptr ? text->runtime_name
                                                          : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Return(cudaErrorInvalidValue);
  *version = kDriverVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Return(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Return(cudaErrorInvalidValue);
  // Once known it stays, also in a forked child, where nothing else works.
  static std::atomic<int> known{0};
  const int status = known.load() > 0 ? kSuccess : TheEngine().Initialize();
  if (status == kSuccess && known.load() == 0) known = TheEngine().DeviceCount();
  *count = known.load();
  return Return(status);
}

cudaError_t cudaSetDevice(int device) { return Return(TheEngine().SetCurrentDevice(device)); }

cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return Return(CheckDevice(device)); }

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return Return(cudaErrorInvalidValue);
  const int status = TheEngine().Initialize();
  if (status != kSuccess) return Return(status);
  // A query must not give the thread a context.
  void* const context = TheEngine().CurrentContext();
  *device = context != nullptr ? TheEngine().DeviceOfContext(context) : 0;
  return cudaSuccess;
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  for (int i = 0; i < count; ++i) {
    const cudaError_t error = CheckDevice(devices[i]);
    if (error != cudaSuccess) return Return(error);
  }
  return cudaSuccess;
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  if (device == nullptr || wanted == nullptr) return Return(cudaErrorInvalidValue);
  const cudaError_t error = CheckDevice(0);
  if (error == cudaSuccess) *device = 0;
  return Return(error);
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return Return((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0 ? cudaErrorInvalidValue
                                                                      : cudaSuccess);
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return Return(cudaErrorInvalidValue);
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaDeviceReset(void) {
  int device = 0;
  const cudaError_t error = GetCurrentDevice(&device);
  return Return(error != cudaSuccess ? error
                                     : static_cast<cudaError_t>(TheEngine().ResetDevice(device)));
}

cudaError_t cudaDeviceSynchronize(void) {
  int device = 0;
  const cudaError_t error = GetCurrentDevice(&device);
  if (error != cudaSuccess) return Return(error);
  return Return(TheEngine().SynchronizeDevice(device));
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  const DeviceShape shape{TheEngine().SmCount(), TheEngine().PhysicalDevice(device)};
  if (value == nullptr || !DeviceAttribute(shape, attribute, value)) {
    return Return(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (prop == nullptr) return Return(cudaErrorInvalidValue);
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  memset(prop, 0, sizeof(*prop));
  snprintf(prop->name, sizeof(prop->name), "%s", kDeviceName);
  DeviceUuid(TheEngine().PhysicalDevice(device), prop->uuid.bytes);
  const auto get = [device](int attribute) { return Attribute(device, attribute); };
  const auto bytes = [&](int attribute) { return static_cast<size_t>(get(attribute)); };
  prop->totalGlobalMem = TheEngine().MemoryBytes();
  prop->sharedMemPerBlock = bytes(cudaDevAttrMaxSharedMemoryPerBlock);
  prop->regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
  prop->warpSize = get(cudaDevAttrWarpSize);
  prop->memPitch = bytes(cudaDevAttrMaxPitch);
  prop->maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    prop->maxThreadsDim[i] = get(cudaDevAttrMaxBlockDimX + i);
    prop->maxGridSize[i] = get(cudaDevAttrMaxGridDimX + i);
  }
  prop->totalConstMem = bytes(cudaDevAttrTotalConstantMemory);
  prop->major = get(cudaDevAttrComputeCapabilityMajor);
  prop->minor = get(cudaDevAttrComputeCapabilityMinor);
  prop->textureAlignment = bytes(cudaDevAttrTextureAlignment);
  prop->texturePitchAlignment = bytes(cudaDevAttrTexturePitchAlignment);
  prop->multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
  prop->integrated = get(cudaDevAttrIntegrated);
  prop->canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
  prop->surfaceAlignment = bytes(cudaDevAttrSurfaceAlignment);
  prop->concurrentKernels = get(cudaDevAttrConcurrentKernels);
  prop->ECCEnabled = get(cudaDevAttrEccEnabled);
  prop->pciBusID = get(cudaDevAttrPciBusId);
  prop->pciDeviceID = get(cudaDevAttrPciDeviceId);
  prop->pciDomainID = get(cudaDevAttrPciDomainId);
  prop->asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  prop->unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
  prop->memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
  prop->l2CacheSize = get(cudaDevAttrL2CacheSize);
  prop->persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize);
  prop->maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
  prop->streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported);
  prop->globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported);
  prop->localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported);
  prop->sharedMemPerMultiprocessor = bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  prop->regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
  prop->managedMemory = get(cudaDevAttrManagedMemory);
  prop->concurrentManagedAccess = get(cudaDevAttrConcurrentManagedAccess);
  prop->computePreemptionSupported = get(cudaDevAttrComputePreemptionSupported);
  prop->canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem);
  prop->cooperativeLaunch = get(cudaDevAttrCooperativeLaunch);
  prop->sharedMemPerBlockOptin = bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  prop->maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
  prop->accessPolicyMaxWindowSize = get(cudaDevAttrMaxAccessPolicyWindowSize);
  prop->reservedSharedMemPerBlock = bytes(cudaDevAttrReservedSharedMemoryPerBlock);
  prop->hostRegisterSupported = get(cudaDevAttrHostRegisterSupported);
  prop->memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
  prop->clusterLaunch = get(cudaDevAttrClusterLaunch);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  int device = 0;
  const cudaError_t error = GetCurrentDevice(&device);
  if (error != cudaSuccess) return Return(error);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return Return(cudaErrorInvalidValue);
  for (int each : {device, peer}) {
    const cudaError_t error = CheckDevice(each);
    if (error != cudaSuccess) return Return(error);
  }
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  int can = 0;
  const cudaError_t error = cudaDeviceCanAccessPeer(&can, from, to);
  if (error != cudaSuccess) return error;
  if (value == nullptr || from == to) return Return(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaDevP2PAttrPerformanceRank:
      *value = 0;
      return cudaSuccess;
    case cudaDevP2PAttrAccessSupported:
    case cudaDevP2PAttrNativeAtomicSupported:
      *value = 1;
      return cudaSuccess;
    case cudaDevP2PAttrCudaArrayAccessSupported:
      *value = 0;
      return cudaSuccess;
    default:
      return Return(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().EnablePeer(peer));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) { return Return(TheEngine().DisablePeer(peer)); }

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (text == nullptr || length <= 0) return Return(cudaErrorInvalidValue);
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  PciBusId(TheEngine().PhysicalDevice(device), text, static_cast<size_t>(length));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  if (device == nullptr || text == nullptr) return Return(cudaErrorInvalidValue);
  const int status = TheEngine().Initialize();
  if (status != kSuccess) return Return(status);
  for (int i = 0; i < TheEngine().DeviceCount(); ++i) {
    char known[32];
    PciBusId(TheEngine().PhysicalDevice(i), known, sizeof(known));
    if (strcasecmp(known, text) != 0) continue;
    *device = i;
    return cudaSuccess;
  }
  return Return(cudaErrorInvalidDevice);
}

// Accepts limits without effect: no kernel has a body here.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t) {
  return Return(limit > cudaLimitPersistingL2CacheSize ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  constexpr size_t kLimits[] = {1024, 8650752, 8388608, 0, 2048, 64, 11796480};
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  if (limit > cudaLimitPersistingL2CacheSize) return Return(cudaErrorInvalidValue);
  *value = kLimits[limit];
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  if (config == nullptr) return Return(cudaErrorInvalidValue);
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                            cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaCtxResetPersistingL2Cache(void) { return cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return DriverEntryPoint(symbol, function, CUDART_VERSION, flags, false, result);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* result) {
  return DriverEntryPoint(symbol, function, CUDART_VERSION, flags, true, result);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  return DriverEntryPoint(symbol, function, static_cast<int>(version), flags, false, result);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                  unsigned version, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* result) {
  return DriverEntryPoint(symbol, function, static_cast<int>(version), flags, true, result);
}

}  // extern "C"
