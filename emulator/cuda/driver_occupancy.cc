// Computes how much of a kernel fits on a device.
#include "emulator/cuda/driver_common.h"
#include "emulator/cuda/driver_modules.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult Settings(const void* function, KernelSettings* settings) {
  return FindKernelSettings(function, settings) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The launch's cluster size in blocks, from the kernel or from the launch; 0: neither sets one.
CUresult ClusterSize(const CUlaunchConfig& config, const KernelSettings& settings, int* size) {
  *size = settings.RequiredClusterSize();
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& cluster = config.attrs[i].value.clusterDim;
    const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
    const uint64_t most = static_cast<uint64_t>(settings.LargestClusterSize());
    if (blocks == 0 || blocks > most || (*size != 0 && blocks != static_cast<uint64_t>(*size)) ||
        config.gridDimX % cluster.x != 0 || config.gridDimY % cluster.y != 0 ||
        config.gridDimZ % cluster.z != 0) {
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    *size = static_cast<int>(blocks);
  }
  return CUDA_SUCCESS;
}

bool IsValid(const CUlaunchConfig* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr) &&
         config->gridDimX > 0 && config->gridDimY > 0 && config->gridDimZ > 0;
}

// Returns 0 if the block has too many threads.
int Threads(const CUlaunchConfig& config) {
  const uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  return threads > kMaxThreadsPerBlock ? 0 : static_cast<int>(threads);
}

}  // namespace

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int block_size, size_t shared_bytes,
                                                              unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (blocks == nullptr || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  KernelSettings settings;
  GORDIAN_EMU_CHECK(Settings(function, &settings));
  *blocks = BlocksPerSm(block_size, shared_bytes);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_size, size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                              shared_bytes, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid_size, int* block_size,
                                                   CUfunction function,
                                                   CUoccupancyB2DSize shared_bytes_of,
                                                   size_t shared_bytes, int limit, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (grid_size == nullptr || block_size == nullptr || limit < 0 ||
      flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  KernelSettings settings;
  GORDIAN_EMU_CHECK(Settings(function, &settings));
  const auto shared = [&](int size) {
    return shared_bytes_of != nullptr ? shared_bytes_of(size) : shared_bytes;
  };
  *block_size = BestBlockSize(limit, shared);
  *grid_size =
      *block_size == 0 ? 0 : BlocksPerSm(*block_size, shared(*block_size)) * TheEngine().SmCount();
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid_size, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_bytes_of, size_t shared_bytes,
                                          int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid_size, block_size, function, shared_bytes_of,
                                                   shared_bytes, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks,
                                                 int block_size) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelSettings settings;
  GORDIAN_EMU_CHECK(Settings(function, &settings));
  return Result(AvailableSharedBytes(blocks, block_size, bytes));
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (clusters == nullptr || !IsValid(config)) return CUDA_ERROR_INVALID_VALUE;
  KernelSettings settings;
  GORDIAN_EMU_CHECK(Settings(function, &settings));
  int size = 0;
  GORDIAN_EMU_CHECK(ClusterSize(*config, settings, &size));
  if (size == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  *clusters = ActiveClusters(TheEngine().SmCount(), size, Threads(*config), config->sharedMemBytes);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                            const CUlaunchConfig* config) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (size == nullptr || !IsValid(config)) return CUDA_ERROR_INVALID_VALUE;
  KernelSettings settings;
  GORDIAN_EMU_CHECK(Settings(function, &settings));
  *size = settings.RequiredClusterSize();
  if (*size != 0) return CUDA_SUCCESS;
  const int sms = TheEngine().SmCount();
  for (*size = settings.LargestClusterSize(); *size > 0; *size /= 2) {
    if (ActiveClusters(sms, *size, Threads(*config), config->sharedMemBytes) > 0) break;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
