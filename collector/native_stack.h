// Native stacks of another process's threads, without its help.
//
// A thread is held by ptrace only while its registers and the used end of its stack are copied,
// some tens of microseconds where processors are free, and goes on before the copy is unwound. It
// is seized and interrupted, never sent a signal; when this process dies in the middle the kernel
// lets the thread go.
#ifndef GORDIAN_COLLECTOR_NATIVE_STACK_H_
#define GORDIAN_COLLECTOR_NATIVE_STACK_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace gordian::collector {

struct NativeFrame {
  uint64_t address = 0;
  std::string function;  // linkage name; empty: not known
  std::string module;    // path of the file; empty: none
  std::string file;      // of the source; empty: not known
  int line = -1;
};

struct NativeStack {
  pid_t tid = 0;
  std::vector<NativeFrame> frames;  // innermost first
  std::string note;                 // why frames are missing; empty: none are known to be
  bool refused = false;             // the note: ptrace is not permitted
};

struct NativeStackOptions {
  // Asked between threads: true leaves those that are not reached yet with a note. May be empty.
  std::function<bool()> out_of_time;
  // Held while a thread is: whoever has it sees none of them stopped by us. May be null.
  std::mutex* while_held = nullptr;
};

// One for each of `tids`, in their order. A thread that was stopped by a signal stays stopped; one
// that a debugger has, that the kernel does not let go of (state D), or that is in a call which
// would fail when it is interrupted (epoll_wait and the like), is left alone.
//
// Works in a thread of its own, which has ended when this returns: with it ends whatever hold on a
// thread could not be given up in order. The caller's process gets SIGCHLD, and its waitpid(-1)
// may report stops of threads that are no children: to be ignored.
std::vector<NativeStack> ReadNativeStacks(pid_t pid, std::span<const pid_t> tids,
                                          const NativeStackOptions& options = {});

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_NATIVE_STACK_H_
