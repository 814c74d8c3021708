#include "collector/stacks/held_thread.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

#include <optional>

#include "collector/process/proc_reader.h"
#include "collector/process/process_memory.h"
#include "common/clock.h"

namespace gordian::collector {

namespace {

constexpr size_t kMostStackBytes = 256u << 10;
// A running thread stops when the kernel next schedules it or when it makes a call.
constexpr uint64_t kStopNs = 50 * kNsPerMs;
// A sleeping thread stops within microseconds. Spin for so long before sleeping: a sleep would hold
// the thread until it ends.
constexpr uint64_t kSpinNs = 500 * kNsPerUs;
constexpr uint64_t kPauseNs = 50 * kNsPerUs;
// How long a thread that was asleep gets to fall asleep again.
constexpr uint64_t kAsleepAgainNs = 5 * kNsPerMs;

void SleepNs(uint64_t ns) {
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(ns)};
  nanosleep(&pause, nullptr);
}

// Calls that fail with EINTR when their thread is stopped and resumed (signal(7)): a thread in one
// would notice gordian.
const char* NotToBeInterrupted(long number) {
  switch (number) {
#ifdef SYS_epoll_wait  // not on AArch64
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
      return "epoll_wait";
    case SYS_semop:
    case SYS_semtimedop:
      return "semop";
    case SYS_rt_sigtimedwait:
      return "sigtimedwait";
    case SYS_io_getevents:
      return "io_getevents";
    default:
      return nullptr;
  }
}

#if defined(__aarch64__)
uint64_t StackPointer(const user_regs_struct& registers) { return registers.sp; }

void CopyRegisters(const user_regs_struct& from, ThreadCopy* to) {
  static_assert(sizeof(from.regs) == (kRegisters - 1) * sizeof(uint64_t));
  memcpy(to->registers, from.regs, sizeof(from.regs));
  to->registers[kRegisters - 1] = from.sp;
  to->instruction_pointer = from.pc;
}
#else
uint64_t StackPointer(const user_regs_struct& registers) { return registers.rsp; }

void CopyRegisters(const user_regs_struct& from, ThreadCopy* to) {
  const uint64_t values[kRegisters] = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi,
                                       from.rbp, from.rsp, from.r8,  from.r9,  from.r10, from.r11,
                                       from.r12, from.r13, from.r14, from.r15, from.rip};
  memcpy(to->registers, values, sizeof(values));
  to->instruction_pointer = from.rip;
}
#endif

// Waits until the thread is stopped, for any reason, with readable registers.
bool AwaitRegisters(pid_t tid, user_regs_struct* registers) {
  const uint64_t begin = MonoNs();
  for (;;) {
    iovec to{.iov_base = registers, .iov_len = sizeof(*registers)};
    if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &to) == 0) {
      return to.iov_len == sizeof(*registers);
    }
    const bool not_yet = errno == ESRCH;
    const uint64_t waited = MonoNs() - begin;
    if (!not_yet || waited >= kStopNs) {
      return false;
    }
    if (waited < kSpinNs) {
      sched_yield();
    } else {
      SleepNs(kPauseNs);
    }
  }
}

// The signal that the thread was about to take when it stopped, and must still get; 0: none.
int SignalOnItsWay(pid_t tid) {
  siginfo_t info{};
  if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) != 0 ||
      info.si_code >> 8 == PTRACE_EVENT_STOP) {
    return 0;
  }
  return info.si_signo;
}

HoldResult Fail(HoldResult result, std::string text, std::string* why) {
  *why = std::move(text);
  return result;
}

}  // namespace

HoldResult CopyThread(pid_t pid, pid_t tid, std::mutex* while_held, ThreadCopy* copy,
                      std::string* why) {
  copy->stack.resize(kMostStackBytes);  // fault the pages in before the thread is held
  std::unique_lock<std::mutex> lock;
  if (while_held != nullptr) {
    lock = std::unique_lock(*while_held);
  }
  const std::optional<TaskStat> before = ReadTaskStat(pid, tid);
  if (!before || before->state == 'Z' || before->state == 'X') {
    return Fail(HoldResult::kGone, "it has ended", why);
  }
  if (before->state == 'D') {
    return Fail(HoldResult::kLeftAlone, "it is in an uninterruptible sleep", why);
  }
  if (before->state == 't') {
    return Fail(HoldResult::kLeftAlone, "a debugger traces it", why);
  }
  if (const std::optional<SystemCall> call = ReadSystemCall(pid, tid); call) {
    if (const char* const name = NotToBeInterrupted(call->number)) {
      return Fail(HoldResult::kLeftAlone,
                  std::string("it is in ") + name + ", which would notice the interruption", why);
    }
  }
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    const int error = errno;
    return error == ESRCH
               ? Fail(HoldResult::kGone, "it has ended", why)
               : Fail(HoldResult::kRefused,
                      std::string("the kernel does not permit ptrace (") + strerror(error) + ")",
                      why);
  }
  user_regs_struct registers{};
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 || !AwaitRegisters(tid, &registers)) {
    (void)ptrace(PTRACE_DETACH, tid, nullptr,
                 nullptr);  // else with our end
    return Fail(HoldResult::kLeftAlone, "it did not stop within 50 ms", why);
  }
  CopyRegisters(registers, copy);
  ProcessMemory memory(pid);
  copy->stack_start = StackPointer(registers);
  const size_t got = memory.ReadSome(copy->stack_start, copy->stack.data(), copy->stack.size());
  (void)ptrace(PTRACE_DETACH, tid, nullptr,
               reinterpret_cast<void*>(static_cast<intptr_t>(SignalOnItsWay(tid))));
  copy->stack.resize(got);
  if (before->state == 'S') {
    // The next reader of the thread's state must find it as it was.
    for (const uint64_t begin = MonoNs(); MonoNs() - begin < kAsleepAgainNs;) {
      const std::optional<TaskStat> now = ReadTaskStat(pid, tid);
      if (!now || (now->state != 'R' && now->state != 't')) {
        break;
      }
      SleepNs(kPauseNs);
    }
  }
  if (got == 0) {
    return Fail(HoldResult::kLeftAlone, "its stack cannot be read", why);
  }
  return HoldResult::kCopied;
}

}  // namespace gordian::collector
