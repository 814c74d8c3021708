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
  explicit HelpSequence(uint32_t list = 0) : list_(list) {}
  // The caller enters entries in the order of their numbers. `marked`: helpers must not begin this
  // one before all entries before it on its stream are done.
  HelpEntry Enter(const Work& work, uint32_t number, bool marked) {
    if (marked) marked_ = number + 1;
    Last& last = last_[work.order_key];
    HelpEntry entry{};
    entry.work = work;
    entry.turn = TurnOf(work);
    entry.after = last.number;
    entry.after_channels = last.channels;
    entry.marked = marked_;
    entry.home = list_;
    entry.number = number;
    last = {number + 1, work.channels};
    return entry;
  }
  // A kernel without an operation, which only says that all before it is done.
  HelpEntry EnterMark(uint32_t number, bool marked) {
    if (marked) marked_ = number + 1;
    HelpEntry entry{};
    entry.turn = kNoTurn;
    entry.marked = marked_;
    entry.home = list_;
    entry.number = number;
    return entry;
  }
  // number + 1 of the last marked entry; 0: none
  uint32_t marked() const { return marked_; }

 private:
  struct Last {
    uint32_t number = 0;  // + 1
    uint16_t channels = 0;
  };
  const uint32_t list_;
  std::unordered_map<uint32_t, Last> last_;  // by order key
  uint32_t marked_ = 0;
};

// The same entry for the list of a stream that the operation's own one waits for: behind its
// entries below `before`.
inline HelpEntry AsGuest(HelpEntry entry, uint32_t before) {
  if (entry.marked != 0) entry.need[entry.needs++] = {entry.home, entry.marked};
  entry.marked = 0;
  entry.before = before;
  return entry;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_SEQUENCE_H_
