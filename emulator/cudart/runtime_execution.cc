// Kernel launches and host functions.
#include <cstring>
#include <vector>

#include "emulator/cudart/graphs/runtime_graph_params.h"
#include "emulator/cudart/registry.h"
#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/graph/graph_api.h"
#include "emulator/engine/process/of_this_thread.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// Configurations that <<<>>> pushed and the kernel's host stub has not popped yet.
std::vector<Configuration>& Configurations() { return OfThisThread<std::vector<Configuration>>(); }

// A launch also takes kernel handles, so the runtime takes an unregistered address for one.
constexpr cudaError_t kUnknownFunction = cudaErrorInvalidResourceHandle;
constexpr size_t kMaxSharedBytes = 232448;

bool ValidShape(dim3 grid, dim3 block) {
  constexpr unsigned kMaxThreads = kMaxThreadsPerBlock;
  constexpr unsigned kMaxGridYz = 65535;
  constexpr unsigned kMaxBlockZ = 64;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return false;
  }
  if (grid.x > 2147483647u || grid.y > kMaxGridYz || grid.z > kMaxGridYz) return false;
  if (block.x > kMaxThreads || block.y > kMaxThreads || block.z > kMaxBlockZ) {
    return false;
  }
  return uint64_t{block.x} * block.y * block.z <= kMaxThreads;
}

}  // namespace

namespace gordian::emu {

cudaError_t MakeKernelParams(const void* function, dim3 grid, dim3 block, size_t shared_bytes,
                             void** arguments, KernelParams* params) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  const Kernel* kernel = FindKernel(function);
  if (kernel == nullptr) return kUnknownFunction;
  if (!ValidShape(grid, block) || shared_bytes > kMaxSharedBytes) return cudaErrorInvalidValue;
  params->function = function;
  params->grid = {grid.x, grid.y, grid.z};
  params->block = {block.x, block.y, block.z};
  params->shared_bytes = static_cast<unsigned>(shared_bytes);
  params->duration_ns = TheEngine().KernelNs();
  if (kernel->busy) {
    if (arguments == nullptr || arguments[0] == nullptr) return cudaErrorInvalidValue;
    params->has_argument = true;
    memcpy(&params->argument, arguments[0], sizeof(params->argument));
    params->duration_ns = static_cast<int64_t>(params->argument) * 1'000;
  }
  return cudaSuccess;
}

}  // namespace gordian::emu

namespace {

cudaError_t Launch(const char* call, const void* function, dim3 grid, dim3 block,
                   size_t shared_bytes, void** arguments, cudaStream_t stream,
                   bool cooperative = false) {
  TheEngine().CountCall(call);
  KernelParams params;
  const cudaError_t error =
      MakeKernelParams(function, grid, block, shared_bytes, arguments, &params);
  if (error != cudaSuccess) return Return(error);
  params.cooperative = cooperative;
  int captured = kSuccess;
  if (TheEngine().Graphs().CaptureKernel(stream, params, &captured)) return Return(captured);
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  return Return(TheEngine().LaunchKernel(stream, blocks, params.duration_ns, function));
}

cudaError_t LaunchConfigured(const char* call, const cudaLaunchConfig_t* config,
                             const void* function, void** arguments, bool per_thread) {
  if (config == nullptr) return Return(cudaErrorInvalidValue);
  return Launch(call, function, config->gridDim, config->blockDim, config->dynamicSmemBytes,
                arguments, per_thread ? PerThread(config->stream) : config->stream);
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  return Launch("cudaLaunchKernel", function, grid, block, shared_bytes, arguments, stream);
}
cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                  size_t shared_bytes, cudaStream_t stream) {
  return Launch("cudaLaunchKernel_ptsz", function, grid, block, shared_bytes, arguments,
                PerThread(stream));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return LaunchConfigured("cudaLaunchKernelExC", config, function, arguments, false);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** arguments) {
  return LaunchConfigured("cudaLaunchKernelExC_ptsz", config, function, arguments, true);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return Launch("cudaLaunchCooperativeKernel", function, grid, block, shared_bytes, arguments,
                stream, true);
}
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* function, dim3 grid, dim3 block,
                                             void** arguments, size_t shared_bytes,
                                             cudaStream_t stream) {
  return Launch("cudaLaunchCooperativeKernel_ptsz", function, grid, block, shared_bytes, arguments,
                PerThread(stream), true);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return Launch("__cudaLaunchKernel", kernel, grid, block, shared_bytes, arguments, stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared_bytes, cudaStream_t stream) {
  return Launch("__cudaLaunchKernel_ptsz", kernel, grid, block, shared_bytes, arguments,
                PerThread(stream));
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  Configurations().push_back({grid, block, shared_bytes, static_cast<cudaStream_t>(stream)});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  auto& stack = Configurations();
  if (stack.empty()) return Return(cudaErrorMissingConfiguration);
  const Configuration top = stack.back();
  stack.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return Return(cudaErrorInvalidValue);
  int captured = kSuccess;
  if (TheEngine().Graphs().CaptureHostFunction(stream, {function, data}, &captured)) {
    return Return(captured);
  }
  return Return(TheEngine().LaunchHostFunction(stream, [function, data] { function(data); }));
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return cudaLaunchHostFunc(PerThread(stream), function, data);
}

// Rejects capturing streams: a captured host function has no status to pass.
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  if (callback == nullptr || flags != 0) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().LaunchHostFunction(
      stream, [stream, callback, data] { callback(stream, cudaSuccess, data); }));
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback,
                                       void* data, unsigned flags) {
  return cudaStreamAddCallback(PerThread(stream), callback, data, flags);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return Return(cudaErrorInvalidValue);
  KernelSettings settings;
  if (!GetKernelSettings(function, &settings)) return Return(kUnknownFunction);
  const auto get = [&settings](int attribute) {
    int value = 0;
    settings.Get(attribute, &value);
    return value;
  };
  *attributes = {};
  attributes->maxThreadsPerBlock = kMaxThreadsPerBlock;
  attributes->numRegs = 32;
  attributes->ptxVersion = 90;
  attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = get(cudaFuncAttributeMaxDynamicSharedMemorySize);
  attributes->preferredShmemCarveout = get(cudaFuncAttributePreferredSharedMemoryCarveout);
  attributes->clusterDimMustBeSet = get(cudaFuncAttributeClusterDimMustBeSet);
  attributes->requiredClusterWidth = get(cudaFuncAttributeRequiredClusterWidth);
  attributes->requiredClusterHeight = get(cudaFuncAttributeRequiredClusterHeight);
  attributes->requiredClusterDepth = get(cudaFuncAttributeRequiredClusterDepth);
  attributes->clusterSchedulingPolicyPreference =
      get(cudaFuncAttributeClusterSchedulingPolicyPreference);
  attributes->nonPortableClusterSizeAllowed = get(cudaFuncAttributeNonPortableClusterSizeAllowed);
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const Kernel* kernel = FindKernel(function);
  if (name == nullptr) return Return(cudaErrorInvalidValue);
  if (kernel == nullptr) return Return(kUnknownFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return Return(FindKernel(function) == nullptr ? kUnknownFunction : cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int block_size,
                                                                   size_t shared_bytes, unsigned) {
  if (blocks == nullptr || block_size <= 0) return Return(cudaErrorInvalidValue);
  if (FindKernel(function) == nullptr) return Return(kUnknownFunction);
  *blocks = BlocksPerSm(block_size, shared_bytes);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, 0);
}

}  // extern "C"
