// Holds a thread of another process by ptrace while it copies the registers and stack for
// unwinding.
#ifndef GORDIAN_COLLECTOR_STACKS_HELD_THREAD_H_
#define GORDIAN_COLLECTOR_STACKS_HELD_THREAD_H_

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gordian::collector {

// In the order of DWARF's numbers.
#if defined(__aarch64__)
inline constexpr int kRegisters = 32;  // x0 to x30, sp; DWARF numbers no pc
#else
inline constexpr int kRegisters = 17;  // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip
#endif

// Registers and the used end of the stack, both from one moment.
struct ThreadCopy {
  uint64_t registers[kRegisters] = {};
  uint64_t instruction_pointer = 0;
  uint64_t stack_start = 0;  // address of stack[0]
  std::vector<char> stack;   // capacity is kept from one use to the next
};

enum class HoldResult {
  kCopied,
  kRefused,  // not permitted
  kLeftAlone,
  kGone,
};

// Copies thread `tid` of `pid`. On failure `why` explains it to people. Call it from a thread that
// ends soon: if a detach fails, the kernel detaches when the tracing thread ends.
HoldResult CopyThread(pid_t pid, pid_t tid, std::mutex* while_held, ThreadCopy* copy,
                      std::string* why);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_HELD_THREAD_H_
