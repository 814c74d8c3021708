// The host's half of the daemon of dfccl_device.h: a kernel for WorkerConfig::launch, and the
// thread that polls the completion queue and burns a processor, as DFCCL's does.
//
// Thread rule: Make on one thread, with the device current; Poll on a thread of its own.
// Ownership: outlives the domain whose worker it runs.
#ifndef GORDIAN_BENCH_RUNTIME_DFCCL_LIKE_H_
#define GORDIAN_BENCH_RUNTIME_DFCCL_LIKE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <thread>

#include "bench/runtime/dfccl_device.h"
#include "runtime/cuda/worker/worker.h"

namespace gordian::runtime::cuda {

class DfcclLike {
 public:
  // Null when the device's memory or the kernel cannot be had.
  static std::unique_ptr<DfcclLike> Make(const DfcclOptions& options);
  ~DfcclLike();
  DfcclLike(const DfcclLike&) = delete;
  DfcclLike& operator=(const DfcclLike&) = delete;

  // Of the domain that it is to run in: blocks, quitting and policies are the caller's.
  void Install(WorkerConfig* config);
  // What the kernels have counted, when none is there.
  cudaError_t Read(DfcclDevice* counters);

 private:
  DfcclLike() = default;
  void Poll();

  DfcclOptions options_;
  DfcclDevice* device_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  std::atomic<WorkerHost*> host_{nullptr};
  std::atomic<bool> over_{false};
  std::thread poller_;
};

// A kernel that keeps `blocks` blocks of 256 threads busy with arithmetic for `rounds` rounds: a
// matrix multiplication's stand-in, to see what it loses beside others.
cudaError_t LaunchArithmetic(uint32_t blocks, uint32_t rounds, float* sink, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_BENCH_RUNTIME_DFCCL_LIKE_H_
