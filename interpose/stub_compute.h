// With GORDIAN_STUB_COMPUTE=1 launches of kernels that take no part in communication are left out,
// and return success: the job's communication without its computation.
//
// Never left out: what a library launches within a call of its own that is seen (NCCL's kernels
// among them), kernels whose names hold "nccl" or "nvshmem", kernels without a name that could be
// asked for, launches that record an event by an attribute, and everything that is no launch of one
// kernel: copies, fills, graphs, host functions. GORDIAN_STUB_COMPUTE_KEEP and
// GORDIAN_STUB_COMPUTE_SKIP are lists of patterns (fnmatch(3), separated by ':') on the kernel's
// name as the driver has it, that is, mangled: those of the first run; where the second is set,
// only those of it are left out.
//
// A kernel's name is asked for at its first launch (cudaFuncGetName, cuFuncGetName,
// cuKernelGetName: CUDA 12.3), and what follows is kept in a table by its handle: later launches
// are one look-up, without a lock. A handle that is given to another kernel after its module was
// unloaded keeps what was decided of the first.
#ifndef GORDIAN_INTERPOSE_STUB_COMPUTE_H_
#define GORDIAN_INTERPOSE_STUB_COMPUTE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include <atomic>

namespace gordian::interpose {

extern std::atomic<uint32_t> g_stub_compute;

// Reads the settings. Before any other thread can be here, once a process.
void ReadStubSettings();

inline bool StubsCompute() {
  return __builtin_expect(g_stub_compute.load(std::memory_order_relaxed) != 0, 0);
}

// Whether launches of it are left out. Of the runtime's functions, the driver's, and the runtime's
// handles of the driver's kernels.
bool IsStubbed(const void* function);
bool IsStubbed(CUfunction function);
bool IsStubbed(cudaKernel_t kernel);

// Whether the launch does more than to run the kernel.
bool RecordsEvent(const cudaLaunchConfig_t* config);
bool RecordsEvent(const CUlaunchConfig* config);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STUB_COMPUTE_H_
