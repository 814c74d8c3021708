// What follows from the order in which a stream's operations are published: which one of its key
// stands before an operation, which one before it must not be overtaken, and which one is of its kernel.
//
// Thread rule: one thread at a time.
#ifndef GORDIAN_RUNTIME_CUDA_HELP_SEQUENCE_H_
#define GORDIAN_RUNTIME_CUDA_HELP_SEQUENCE_H_

#include <cstdint>
#include <unordered_map>

#include "runtime/cuda/help_device.h"

namespace gordian::runtime::cuda {

// Two entries that follow each other will be carried by one kernel.
inline void OfOneKernel(HelpList* first, HelpList* second) {
  first->last = second->id;
  second->first = first->id;
  first->channels[1] = second->channels[1] = second->channels[0];
  second->channels[0] = first->channels[0];
}

class HelpSequence {
 public:
  // In the order of numbers. `marked`: it must not begin before all before it on its stream are
  // done.
  HelpEntry Enter(const Work& work, uint32_t number, bool marked) {
    if (marked) marked_ = number + 1;
    uint32_t& last = last_[work.order_key];
    const HelpEntry entry = {work, TurnOf(work), last, marked_};
    last = number + 1;
    return entry;
  }

 private:
  std::unordered_map<uint32_t, uint32_t> last_;  // by order key: number + 1
  uint32_t marked_ = 0;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_HELP_SEQUENCE_H_
