// Kernels and host functions.
#include <cstdint>

#include "emulator/cuda/driver_modules.h"
#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace gordian::emu {

CUresult CheckKernelParams(KernelParams* params) {
  if (!IsLoadedKernel(params->function)) return CUDA_ERROR_INVALID_HANDLE;
  constexpr unsigned kMaxGridYz = 65535;
  constexpr unsigned kMaxThreads = 1024;
  constexpr unsigned kMaxBlockZ = 64;
  const auto& [grid_x, grid_y, grid_z] = params->grid;
  const auto& [block_x, block_y, block_z] = params->block;
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || grid_x > 2147483647u ||
      grid_y > kMaxGridYz || grid_z > kMaxGridYz || block_x > kMaxThreads ||
      block_y > kMaxThreads || block_z > kMaxBlockZ || threads > kMaxThreads) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  params->duration_ns = TheEngine().KernelNs();
  return CUDA_SUCCESS;
}

}  // namespace gordian::emu

namespace {

CUresult Launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                CUstream stream, bool cooperative = false) {
  KernelParams params;
  params.function = function;
  params.grid = {grid_x, grid_y, grid_z};
  params.block = {block_x, block_y, block_z};
  params.shared_bytes = shared_bytes;
  params.cooperative = cooperative;
  GORDIAN_EMU_CHECK(CheckKernelParams(&params));
  int captured = kSuccess;
  if (Graphs().CaptureKernel(stream, params, &captured)) return Result(captured);
  const int64_t blocks = int64_t{grid_x} * grid_y * grid_z;
  return Result(TheEngine().LaunchKernel(stream, blocks, params.duration_ns, function));
}

CUresult LaunchConfigured(const char* call, const CUlaunchConfig* config, CUfunction function,
                          bool per_thread) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUstream stream = per_thread ? PerThread(config->hStream) : config->hStream;
  GORDIAN_EMU_CHECK(CheckStream(stream));
  TheEngine().CountCall(call);
  return Launch(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                config->blockDimY, config->blockDimZ, config->sharedMemBytes, stream);
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void**, void**) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  TheEngine().CountCall("cuLaunchKernel");
  return Launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void**) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  TheEngine().CountCall("cuLaunchCooperativeKernel");
  return Launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  return LaunchConfigured("cuLaunchKernelEx", config, function, false);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int captured = kSuccess;
  if (Graphs().CaptureHostFunction(stream, {function, data}, &captured)) return Result(captured);
  return Result(TheEngine().LaunchHostFunction(stream, [function, data] { function(data); }));
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                             unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().LaunchHostFunction(
      stream, [stream, callback, data] { callback(stream, CUDA_SUCCESS, data); }));
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, CUstream stream, void** parameters,
                             void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        PerThread(stream), parameters, extra);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  return LaunchConfigured("cuLaunchKernelEx_ptsz", config, function, true);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
  return cuLaunchHostFunc(PerThread(stream), function, data);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data,
                                  unsigned flags) {
  return cuStreamAddCallback(PerThread(stream), callback, data, flags);
}

}  // extern "C"
