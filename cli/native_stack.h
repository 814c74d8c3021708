// The native stack of another process' main thread, without its help.
#ifndef GORDIAN_CLI_NATIVE_STACK_H_
#define GORDIAN_CLI_NATIVE_STACK_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace gordian::cli {

struct NativeFrame {
  uint64_t address = 0;
  std::string function;  // empty: not known
  std::string module;    // path of the file; empty: none
};

// Innermost first. Holds the thread by ptrace while its frames are read, some milliseconds, and lets
// it go whatever happens; a thread that was stopped by a signal is stopped again afterwards. Reads
// no debug information, so that nothing is fetched or searched for. Errors: not permitted, a
// debugger has it already, a kernel that does not let go of it (state D).
StatusOr<std::vector<NativeFrame>> MainThreadStack(pid_t pid, char state);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_NATIVE_STACK_H_
