// With GORDIAN_STUB_COMPUTE=1 the shim skips launches of kernels that take no part in communication
// and returns success: the job's communication without its computation.
//
// Never skipped: launches of a library within an observed call of its own (NCCL's kernels among
// them), kernels whose names hold "nccl" or "nvshmem", kernels whose name cannot be queried,
// launches that record an event by an attribute, and everything that is not a launch of one kernel:
// copies, fills, graphs, host functions. GORDIAN_STUB_COMPUTE_KEEP and GORDIAN_STUB_COMPUTE_SKIP
// are lists of patterns (fnmatch(3), separated by ':') for the driver's, mangled, name of a kernel:
// those that match the first still run; if the second is set, only those that match it are skipped.
//
// The shim queries a kernel's name at its first launch (cudaFuncGetName, cuFuncGetName,
// cuKernelGetName: CUDA 12.3) and stores the decision by handle: later launches are one look-up,
// without a lock. A handle that another kernel gets after its module was unloaded keeps the first
// decision.
#ifndef GORDIAN_INTERPOSE_SOURCES_STUB_COMPUTE_H_
#define GORDIAN_INTERPOSE_SOURCES_STUB_COMPUTE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include <atomic>

namespace gordian::interpose {

extern std::atomic<uint32_t> g_stub_compute;

// Reads the settings, once per process, before any other thread can run this code.
void ReadStubSettings();

inline bool StubsCompute() {
  return __builtin_expect(g_stub_compute.load(std::memory_order_relaxed) != 0, 0);
}

// True if the shim skips its launches. Takes the runtime's functions, the driver's, and the
// runtime's handles of the driver's kernels.
bool IsStubbed(const void* function);
bool IsStubbed(CUfunction function);
bool IsStubbed(cudaKernel_t kernel);

// True if the launch does more than run the kernel.
bool RecordsEvent(const cudaLaunchConfig_t* config);
bool RecordsEvent(const CUlaunchConfig* config);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_SOURCES_STUB_COMPUTE_H_
