// Makes list entries in the order in which the host publishes a stream's operations: finds for each
// one the operation of the same key before it and the marked one that it must not overtake, and
// joins the entries of one kernel.
//
// Thread rule: one thread at a time. Nothing here blocks or fails.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_HELP_SEQUENCE_H_
#define GORDIAN_RUNTIME_CUDA_LIST_HELP_SEQUENCE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/list/help_device.h"

namespace gordian::runtime::cuda {

// The list arguments of one kernel that carries consecutive entries, at most kOfOneKernel.
inline HelpList OfOneKernel(const std::vector<HelpList>& entries) {
  HelpList kernel = entries.front();
  kernel.last = entries.back().id;
  for (size_t i = 0; i < entries.size(); ++i) kernel.channels[i] = entries[i].channels[0];
  return kernel;
}

class HelpSequence {
 public:
  // The caller enters operations in the order of their numbers. `marked`: helpers must not begin
  // this one before all operations before it on its stream are done.
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

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_SEQUENCE_H_
