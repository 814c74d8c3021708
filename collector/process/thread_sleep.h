// What a sleeping thread waits for, as far as the kernel and the thread's stack show it.
//
// A circle is proven only if no sleeping thread of its processes can wake and make the missing
// call. The kernel names the system call and its arguments; it does not say who will wake the
// thread, so every call but an endless wait for another thread counts as woken from outside.
#ifndef GORDIAN_COLLECTOR_PROCESS_THREAD_SLEEP_H_
#define GORDIAN_COLLECTOR_PROCESS_THREAD_SLEEP_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collector/process/proc_reader.h"
#include "collector/process/thread_roles.h"
#include "collector/stacks/python_stack.h"

namespace gordian::collector {

enum class ThreadSleep : uint8_t {
  kUnknown,  // it does not sleep, or the kernel does not let gordian see in what
  kOutside,  // time, a signal, a descriptor or another process may wake it
  kThread,   // only another thread of its process can wake it: an endless wait for a private futex
             // (mutex, condition variable, semaphore), or for a thread's end
  kOperation,  // it carries an operation of gloo out, whose end wakes it, or its time limit
  kWatch,      // asleep or not, it watches operations of NCCL for PyTorch
};
// `threads`: of the same process; a wait for a thread's end names one of them.
ThreadSleep SleepOf(pid_t pid, const SystemCall& call, const std::vector<TaskState>& threads);

// True if only libraries that make no calls for the application have code on the thread's stack,
// and at least one of them is a driver, MPI or network library: the thread is that library's own.
// `code`: all mappings of the process that can be executed, by start.
bool BelongsToLibrary(pid_t pid, uint64_t stack_pointer,
                      const std::vector<ExecutableMapping>& code);

// The threads of one process. Looks at a thread once each time it falls asleep. Not thread-safe.
class ThreadSleeps {
 public:
  struct Look {
    ThreadSleep sleep = ThreadSleep::kUnknown;
    bool library = false;
  };

  explicit ThreadSleeps(pid_t pid) : pid_(pid) {}

  // Begins a round: `threads` must outlive its calls of Of().
  void Begin(const std::vector<TaskState>& threads);
  // `thread`: one of those, in state S.
  Look Of(const TaskState& thread);
  // What is known of it whether it sleeps or not: a thread that was seen to serve a library, or to
  // watch operations, does so for as long as it lives.
  Look ByRole(const TaskState& thread) const;

 private:
  struct Seen {
    uint64_t context_switches = 0;
    Look look;
    uint64_t start = 0;  // of the thread that has the role
    ThreadRole role = ThreadRole::kUnknown;
    int python_looks = 0;  // that found nothing
  };
  bool IsIdleMonitor(pid_t tid, Seen*);

  const pid_t pid_;
  const std::vector<TaskState>* threads_ = nullptr;
  std::unordered_map<pid_t, Seen> seen_;
  std::optional<std::vector<ExecutableMapping>> code_;  // read at most once a round
  std::optional<PythonStacks> python_;                  // likewise
  ThreadRoles roles_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_THREAD_SLEEP_H_
