// The thread's depth inside intercepted calls. NCCL's own calls of intercepted functions
// (ncclBcast -> ncclBroadcast), and whatever a real function calls, are part of the outermost call.
#ifndef GORDIAN_INTERPOSE_ENTRY_REENTRANCY_GUARD_H_
#define GORDIAN_INTERPOSE_ENTRY_REENTRANCY_GUARD_H_

#include <stdint.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Trivial on purpose: usable before constructors and after destructors have run, and in any thread.
struct ThreadLocal {
  uint64_t epoch;  // of `context`; differs from the process's until the thread is attached
  ThreadContext* context;
  uint32_t depth;
  void* nccl;     // the real function of the last outermost NCCL call: tells which copy it went to
  uint32_t skip;  // calls that go unrecorded before a thread that found no slot looks again
};
extern thread_local constinit ThreadLocal t_local __attribute__((tls_model("initial-exec")));

class ReentrancyGuard {
 public:
  ReentrancyGuard() : outermost_(t_local.depth++ == 0) {}
  ~ReentrancyGuard() { --t_local.depth; }
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_REENTRANCY_GUARD_H_
