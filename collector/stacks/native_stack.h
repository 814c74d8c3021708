// Reads native stacks of another process's threads, without its help.
//
// ptrace holds a thread only while gordian copies its registers and the used end of its stack, some
// tens of microseconds on idle processors; gordian unwinds the copy after the thread runs on. It
// seizes and interrupts the thread and sends no signal; if gordian dies meanwhile, the kernel
// detaches the thread.
#ifndef GORDIAN_COLLECTOR_STACKS_NATIVE_STACK_H_
#define GORDIAN_COLLECTOR_STACKS_NATIVE_STACK_H_

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
  std::string note;                 // why frames are missing; empty: none known to be
  bool refused = false;             // the note says that ptrace is not permitted
};

struct NativeStackOptions {
  // Called between threads: when it returns true, the remaining threads get a note. May be empty.
  std::function<bool()> out_of_time;
  // Held while a thread is stopped, so that its holder never sees one stopped by gordian. May be
  // null.
  std::mutex* while_held = nullptr;
};

// Returns one stack for each of `tids`, in order, and names the code at the addresses of `places`.
// A thread stopped by a signal stays stopped. Skips
// a thread that a debugger traces, that sleeps uninterruptibly (state D), or whose system call
// would fail on interruption (epoll_wait and the like).
//
// Works in a thread of its own, which has ended on return: its end detaches any thread whose detach
// failed. The caller's process gets SIGCHLD, and its waitpid(-1) may report stops of threads that
// are not its children; ignore them.
std::vector<NativeStack> ReadNativeStacks(pid_t pid, std::span<const pid_t> tids,
                                          const NativeStackOptions& options = {},
                                          std::span<NativeFrame> places = {});

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_NATIVE_STACK_H_
