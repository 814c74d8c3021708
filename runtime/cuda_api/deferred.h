// Deferred operations: the operations of each stream that no later work waits for yet, and the
// waits for them.
//
// Thread rule: any thread. Process-wide.
#ifndef GORDIAN_RUNTIME_CUDA_API_DEFERRED_H_
#define GORDIAN_RUNTIME_CUDA_API_DEFERRED_H_

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/list/help_stream.h"
#include "runtime/cuda/worker/worker.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {

class Process;

class Deferred {
 public:
  static Deferred& Get();

  void Add(Process* process, cudaStream_t stream, const Detached& operation,
           const Touched& touched);
  // Later work of the stream waits for all that were added. grtNotSupported: the stream is
  // captured, and there are some; they stay.
  grtResult_t Join(Process* process, cudaStream_t stream);
  // The same, if one of them uses memory that an operation may not use beside it.
  grtResult_t JoinIfConflict(Process* process, cudaStream_t stream, const Touched& touched);
  // The stream will be destroyed.
  void Forget(Process* process, cudaStream_t stream);

 private:
  using Key =
      std::pair<Process*, cudaStream_t>;  // default streams of several devices have one handle
  struct One {
    Detached operation;
    Touched touched;
  };
  std::mutex mutex_;
  std::map<Key, std::vector<One>> unjoined_;
};

// Later work of the stream, of any device in use, waits for operations, which are of one device.
// grtNotSupported: the stream is captured, and they are not all done.
grtResult_t StreamWaits(const std::vector<Detached>& operations, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_DEFERRED_H_
