// What an experiment compares: ways to carry a set of collectives, all behind one interface.
//
//   nccl       NCCL, every operation on one stream
//   strict     this runtime's carriers on one exclusive stream
//   detached   this runtime's resident worker
//   dfccl      the daemon of dfccl_device.h as published; dfccl:naive, :ready, :vanilla, :packed,
//   :word, :push
//              change one thing each, and can be joined (dfccl:ready:word)
//
// Every operation of an experiment has a communicator of its own, unless it says that their order
// is equal.
//
// Thread rule: one thread. Errors end the process (RankProcess::Fail).
#ifndef GORDIAN_BENCH_RUNTIME_CONTENDERS_H_
#define GORDIAN_BENCH_RUNTIME_CONTENDERS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/runtime/dfccl_like.h"
#include "runtime/core/op.h"
#include "runtime/cuda/worker/worker.h"
#include "runtime/testing/ranks.h"

namespace gordian::runtime::cuda {

struct ContenderOptions {
  int operations = 1;        // different ones
  bool equal_order = false;  // on all ranks
  uint32_t blocks = 8;       // of the worker, or the daemon
  uint64_t stage_bytes = 8ull << 20;
  int64_t stuck_quit_us = 200, idle_quit_us = 100;
};

class Contender {
 public:
  virtual ~Contender() = default;
  // Operation `index`; sums of floats.
  virtual void Submit(int index, OpKind kind, const float* in, float* out, uint64_t count) = 0;
  virtual void Wait() = 0;  // for all that were submitted
  // Where NCCL and carriers run; null for others.
  virtual cudaStream_t stream() { return nullptr; }
  virtual Worker* worker() { return nullptr; }
  virtual DfcclLike* dfccl() { return nullptr; }
  // What carriers that helped have done so far; zeros for others. Waits for a copy.
  virtual HelpCounts helped() { return {}; }
};

// `name` as above. All ranks together, in the same order.
std::unique_ptr<Contender> MakeContender(const std::string& name, const ContenderOptions& options,
                                         testing::RankProcess* process);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_BENCH_RUNTIME_CONTENDERS_H_
