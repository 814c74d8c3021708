// W24: A watchdog of PyTorch's calls, or wakes a thread, only after an operation has ended.
//
// It asks NCCL and CUDA again and again how far the operations of its process group are. When one
// has ended it completes what waits for that, which may run code of the program. After a time limit
// it aborts communicators or the process, which ends a circle and does not resolve it.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

bool Watches(const ThreadState& state) {
  return state.library_thread && state.sleep == ThreadSleep::kWatch;
}

void WatchedEnd(const WaitView& view, const Process& process, uint32_t node, WaitNodes* nodes) {
  if (std::none_of(process.state.threads.begin(), process.state.threads.end(), Watches)) return;
  for (const LaunchId launch : view.LaunchesOf(process.info.process)) {
    const uint32_t done = nodes->DoneOf(launch);
    if (done != kNoNode) nodes->WaitDiscouraged(node, done, Reason::kNotCalled);
  }
}

}  // namespace gordian::model::rules
