// From the first intercepted call of a process, or of a forked child, to its exit.
//
// Nothing happens when the shim is loaded: launchers and shells load it and never map anything. The
// first outermost intercepted call attaches the process (creates and maps its ring file) and the
// thread; when that is impossible the process is marked silent and every call is forwarded plainly.
//
// Fork: the state hangs on a page that the kernel wipes in the child (MADV_WIPEONFORK; without it,
// a pthread_atfork handler does it), so that the child's first call finds itself unattached and
// makes a ring of its own. It never writes to its parent's.
#ifndef GORDIAN_INTERPOSE_ENTRY_LIFECYCLE_H_
#define GORDIAN_INTERPOSE_ENTRY_LIFECYCLE_H_

#include <errno.h>

#include <atomic>

#include "interpose/entry/reentrancy_guard.h"
#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// All zero in a process that has not attached, and again in a forked child.
struct ForkPage {
  std::atomic<uint64_t> epoch;  // never the same in parent and child; 0: not attached
  std::atomic<uint32_t> attaching;
  std::atomic<Process*> process;  // null with a non-zero epoch: silent
};
extern std::atomic<ForkPage*> g_fork_page;

// Slow path of CurrentThread: attaches process and thread. Null: forward plainly. Keeps errno.
ThreadContext* AttachThread();

// The calling thread's context, or null when there is nothing to record into.
inline ThreadContext* CurrentThread() {
  const ForkPage* const page = g_fork_page.load(std::memory_order_relaxed);
  // litmus: fork_page.current
  const uint64_t epoch = page->epoch.load(std::memory_order_acquire);
  if (__builtin_expect(t_local.epoch == epoch && epoch != 0, 1)) return t_local.context;
  return AttachThread();
}

// False in a child that was forked inside the real call that just returned: `thread` is the
// parent's.
inline bool StillAttached(const ThreadContext& thread) {
  return g_fork_page.load(std::memory_order_relaxed)->epoch.load(std::memory_order_relaxed) ==
         thread.epoch;
}

class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  const int saved_;
};

// Memory for the life of the process, zeroed, aligned to 64 bytes. Null when there is none.
void* ArenaAllocate(Process& process, size_t bytes);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_LIFECYCLE_H_
