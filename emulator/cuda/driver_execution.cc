// Kernels and host functions. Modules are not emulated, so no CUfunction is ever valid.
#include "emulator/cuda/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

extern "C" {

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void**, void**) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void**, void**) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
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
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra) {
  return cuLaunchKernelEx(config, function, parameters, extra);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
  return cuLaunchHostFunc(PerThread(stream), function, data);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data,
                                  unsigned flags) {
  return cuStreamAddCallback(PerThread(stream), callback, data, flags);
}

}  // extern "C"
