// What follows from the order in which a stream's operations are published: which one of its key
// stands before an operation, which one before it must not be overtaken, and which one is of its
// kernel.
//
// Thread rule: one thread at a time.
#ifndef GORDIAN_RUNTIME_CUDA_HELP_SEQUENCE_H_
#define GORDIAN_RUNTIME_CUDA_HELP_SEQUENCE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/help_device.h"

namespace gordian::runtime::cuda {

// Entries that follow each other, kOfOneKernel at most, will be carried by one kernel: what it gets
// of the list is the first one's.
inline HelpList OfOneKernel(const std::vector<HelpList>& entries) {
  HelpList kernel = entries.front();
  kernel.last = entries.back().id;
  for (size_t i = 0; i < entries.size(); ++i) kernel.channels[i] = entries[i].channels[0];
  return kernel;
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
