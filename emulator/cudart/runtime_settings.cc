// Settings and queries with little or no effect on an emulated device: kernels' attributes and
// occupancy, banks, atomic operations, and the driver's log.
#include "emulator/cudart/registry.h"
#include "emulator/cudart/runtime_driver.h"
#include "emulator/engine/device/kernel_settings.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

// Banks have one size since compute capability 5: setting it succeeds without effect.
cudaError_t CheckBanks(cudaSharedMemConfig config) {
  return config > cudaSharedMemBankSizeEightByte ? cudaErrorInvalidValue : cudaSuccess;
}

constexpr cudaError_t kUnknownFunction = cudaErrorInvalidResourceHandle;

bool IsValid(const cudaLaunchConfig_t* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr) &&
         config->gridDim.x > 0 && config->gridDim.y > 0 && config->gridDim.z > 0;
}

// Returns 0 if the block has too many threads.
int Threads(const cudaLaunchConfig_t& config) {
  const uint64_t threads = uint64_t{config.blockDim.x} * config.blockDim.y * config.blockDim.z;
  return threads > kMaxThreadsPerBlock ? 0 : static_cast<int>(threads);
}

// The launch's cluster size in blocks; see driver_occupancy.cc.
cudaError_t ClusterSize(const cudaLaunchConfig_t& config, const KernelSettings& settings,
                        int* size) {
  *size = settings.RequiredClusterSize();
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    const auto& cluster = config.attrs[i].val.clusterDim;
    const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
    const uint64_t most = static_cast<uint64_t>(settings.LargestClusterSize());
    if (blocks == 0 || blocks > most || (*size != 0 && blocks != static_cast<uint64_t>(*size)) ||
        config.gridDim.x % cluster.x != 0 || config.gridDim.y % cluster.y != 0 ||
        config.gridDim.z % cluster.z != 0) {
      return cudaErrorInvalidClusterSize;
    }
    *size = static_cast<int>(blocks);
  }
  return *size == 0 ? cudaErrorInvalidClusterSize : cudaSuccess;
}

}  // namespace

// Functions that CUDA 13's headers no longer declare.
extern "C" {
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config);
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config);
cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig config);
}

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return Return(SetKernelAttribute(function, attribute, value));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                      int blocks, int block_size) {
  if (bytes == nullptr) return Return(cudaErrorInvalidValue);
  if (FindKernel(function) == nullptr) return Return(kUnknownFunction);
  return Return(AvailableSharedBytes(blocks, block_size, bytes));
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  KernelSettings settings;
  if (clusters == nullptr || !IsValid(config)) return Return(cudaErrorInvalidValue);
  if (!GetKernelSettings(function, &settings)) return Return(kUnknownFunction);
  int size = 0;
  const cudaError_t error = ClusterSize(*config, settings, &size);
  if (error != cudaSuccess) return Return(error);
  *clusters =
      ActiveClusters(TheEngine().SmCount(), size, Threads(*config), config->dynamicSmemBytes);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  KernelSettings settings;
  if (size == nullptr || !IsValid(config)) return Return(cudaErrorInvalidValue);
  if (!GetKernelSettings(function, &settings)) return Return(kUnknownFunction);
  *size = settings.RequiredClusterSize();
  if (*size != 0) return cudaSuccess;
  const int sms = TheEngine().SmCount();
  for (*size = settings.LargestClusterSize(); *size > 0; *size /= 2) {
    if (ActiveClusters(sms, *size, Threads(*config), config->dynamicSmemBytes) > 0) break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  if (config == nullptr) return Return(cudaErrorInvalidValue);
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return Return(CheckBanks(config));
}

cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig config) {
  if (FindKernel(function) == nullptr) return Return(kUnknownFunction);
  return Return(CheckBanks(config));
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                               cudaFlushGPUDirectRDMAWritesScope scope) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuFlushGPUDirectRDMAWrites),
                    static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                    static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned* capabilities,
                                               const cudaAtomicOperation* operations,
                                               unsigned count, int from, int to) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuDeviceGetP2PAtomicCapabilities), capabilities,
                    reinterpret_cast<const CUatomicOperation*>(operations), count, from, to);
}

cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned* capabilities,
                                                const cudaAtomicOperation* operations,
                                                unsigned count, int device) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuDeviceGetHostAtomicCapabilities), capabilities,
                    reinterpret_cast<const CUatomicOperation*>(operations), count, device);
}

// --- The log ---

cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t function, void* data,
                                     cudaLogsCallbackHandle* handle) {
  return Return(static_cast<int>(GORDIAN_EMU_DRIVER(cuLogsRegisterCallback)(
      reinterpret_cast<CUlogsCallback>(function), data, handle)));
}
cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle) {
  return Return(static_cast<int>(GORDIAN_EMU_DRIVER(cuLogsUnregisterCallback)(handle)));
}
cudaError_t cudaLogsCurrent(cudaLogIterator* iterator, unsigned flags) {
  return Return(static_cast<int>(GORDIAN_EMU_DRIVER(cuLogsCurrent)(iterator, flags)));
}
cudaError_t cudaLogsDumpToFile(cudaLogIterator* iterator, const char* path, unsigned flags) {
  return Return(static_cast<int>(GORDIAN_EMU_DRIVER(cuLogsDumpToFile)(iterator, path, flags)));
}
cudaError_t cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer, size_t* bytes,
                                 unsigned flags) {
  return Return(
      static_cast<int>(GORDIAN_EMU_DRIVER(cuLogsDumpToMemory)(iterator, buffer, bytes, flags)));
}

}  // extern "C"
