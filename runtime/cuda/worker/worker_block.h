// Gives the resident worker a CUDA thread block (worker_device.h, worker_join_device.h). Only for
// .cu files.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_BLOCK_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_BLOCK_H_

#include <cuda_runtime.h>

#include "runtime/cuda/list/device_block.h"
#include "runtime/cuda/worker/worker_device.h"

namespace gordian::runtime::cuda {

class WorkerBlock : public DeviceBlock {
 public:
  struct Shared {
    DeviceBlock::Shared block;
    WalkRoom walk;
  };
  __device__ explicit WorkerBlock(Shared* shared) : DeviceBlock(&shared->block), shared_(*shared) {}
  __device__ Work& Entry() { return shared_.block.entry; }
  __device__ WalkRoom* Walk() { return &shared_.walk; }
  __device__ void Rest() {}
  __device__ void Doze() { __nanosleep(1000); }
  __device__ void Point() {}

 private:
  Shared& shared_;
};

template <typename T>
__noinline__ GRT_HD StepResult RunTyped(WorkerBlock& b, const Work& w, uint32_t channel,
                                        uint32_t* pc, const WorkerView& v, Stay stay) {
  if (w.ranks <= 2) return RunChannelOf<T, 2>(b, w, channel, pc, v, stay);
  return RunChannelOf<T, kMaxRanks>(b, w, channel, pc, v, stay);
}

template <>
GRT_HD inline StepResult RunChannel(WorkerBlock& b, const Work& w, uint32_t channel, uint32_t* pc,
                                    const WorkerView& v, Stay stay) {
  if ((w.flags & kReduces) == 0) return RunTyped<MoveOnly>(b, w, channel, pc, v, stay);
  if (w.op == Operator::kPreMulSum) return RunTyped<AnyType>(b, w, channel, pc, v, stay);
  if (w.type == DataType::kFloat) return RunTyped<FloatElement>(b, w, channel, pc, v, stay);
  if (w.type == DataType::kHalf) return RunTyped<HalfElement>(b, w, channel, pc, v, stay);
  if (w.type == DataType::kBfloat16) return RunTyped<Bfloat16Element>(b, w, channel, pc, v, stay);
  return RunTyped<AnyType>(b, w, channel, pc, v, stay);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_BLOCK_H_
