// A thread of another process, held by ptrace for as long as it takes to copy what unwinding needs.
#ifndef GORDIAN_COLLECTOR_HELD_THREAD_H_
#define GORDIAN_COLLECTOR_HELD_THREAD_H_

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gordian::collector {

// In the order of DWARF's numbers for x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15,
// rip.
inline constexpr int kRegisters = 17;
inline constexpr int kStackPointer = 7;
inline constexpr int kInstructionPointer = 16;

// Registers and the used end of the stack, as of one moment.
struct ThreadCopy {
  uint64_t registers[kRegisters] = {};
  uint64_t stack_start = 0;  // address of stack[0]
  std::vector<char> stack;   // capacity is kept from one use to the next
};

enum class HoldResult {
  kCopied,
  kRefused,  // not permitted
  kLeftAlone,
  kGone,
};

// Copies thread `tid` of `pid`. `why` says why not, for people. To be called from a thread that
// ends soon: a hold that the kernel does not give up at once ends with the thread that asked for
// it.
HoldResult CopyThread(pid_t pid, pid_t tid, std::mutex* while_held, ThreadCopy* copy,
                      std::string* why);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_HELD_THREAD_H_
