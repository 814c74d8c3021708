#include "collector/process/thread_sleep.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "collector/process/process_memory.h"

namespace gordian::collector {
namespace {

// The part of a stack that is searched for code: what a thread that a library runs for itself uses.
// A deeper stack counts as the application's.
constexpr size_t kMostStackBytes = 64u << 10;

// Libraries that call nothing for the application, by the beginning of their file's name.
constexpr std::string_view kPlumbing[] = {"libc.so",    "libc-",    "ld-linux",  "ld-2.",
                                          "libpthread", "librt",    "libdl",     "libm.so",
                                          "libm-",      "libgcc_s", "libstdc++", "libatomic"};
constexpr std::string_view kDrivers[] = {
    "libcuda.so",  "libcudart.so", "libnvidia-", "libnccl",    "libgordian", "libopen-pal",
    "libopen-rte", "libmpi",       "libpmix",    "libevent",   "libhwloc",   "libucs",
    "libucp",      "libuct",       "libucm",     "libibverbs", "librdmacm",  "libfabric"};

template <size_t n>
bool Begins(std::string_view name, const std::string_view (&with)[n]) {
  return std::any_of(std::begin(with), std::end(with),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string_view FileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool EndlessWait(const SystemCall& call) {
  if (call.number != SYS_futex) return false;
  const int command = static_cast<int>(call.arguments[1]) & FUTEX_CMD_MASK;
  switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI:
      return call.arguments[3] == 0;  // no time limit
    default:
      return false;
  }
}

}  // namespace

ThreadSleep SleepOf(pid_t pid, const SystemCall& call, const std::vector<TaskState>& threads) {
  if (!EndlessWait(call)) return ThreadSleep::kOutside;
  if ((call.arguments[1] & FUTEX_PRIVATE_FLAG) != 0) return ThreadSleep::kThread;
  // pthread_join waits for the word that holds the thread's id until the kernel clears it. Every
  // other shared futex may be in memory that processes share.
  const std::optional<int32_t> word = ProcessMemory(pid).Get<int32_t>(call.arguments[0]);
  const bool joins =
      word && std::any_of(threads.begin(), threads.end(),
                          [&](const TaskState& thread) { return thread.tid == *word; });
  return joins ? ThreadSleep::kThread : ThreadSleep::kOutside;
}

bool BelongsToLibrary(pid_t pid, uint64_t stack_pointer,
                      const std::vector<ExecutableMapping>& code) {
  std::vector<uint64_t> stack(kMostStackBytes / sizeof(uint64_t));
  const size_t bytes =
      ProcessMemory(pid).ReadSome(stack_pointer & ~uint64_t{7}, stack.data(), kMostStackBytes);
  if (bytes == 0 || bytes == kMostStackBytes || code.empty()) return false;
  stack.resize(bytes / sizeof(uint64_t));
  bool driver = false;
  for (const uint64_t word : stack) {
    const auto after = std::upper_bound(
        code.begin(), code.end(), word,
        [](uint64_t address, const ExecutableMapping& mapping) { return address < mapping.start; });
    if (after == code.begin() || word >= std::prev(after)->end) continue;
    const std::string_view name = FileName(std::prev(after)->path);
    if (Begins(name, kDrivers)) {
      driver = true;
    } else if (!Begins(name, kPlumbing) && name != "[vdso]") {
      return false;
    }
  }
  return driver;
}

void ThreadSleeps::Begin(const std::vector<TaskState>& threads) {
  threads_ = &threads;
  code_.reset();
  python_.reset();
  std::erase_if(seen_, [&](const auto& entry) {
    return std::none_of(threads.begin(), threads.end(),
                        [&](const TaskState& thread) { return thread.tid == entry.first; });
  });
}

ThreadSleeps::Look ThreadSleeps::ByRole(const TaskState& thread) const {
  const auto found = seen_.find(thread.tid);
  if (found == seen_.end() || found->second.start != thread.stat.start) return {};
  if (found->second.role == ThreadRole::kServes) return {ThreadSleep::kUnknown, true};
  if (found->second.role == ThreadRole::kWatches) return {ThreadSleep::kWatch, true};
  return {};
}

// Reads the stacks of all threads at once: to find the interpreter takes longer than to read one.
bool ThreadSleeps::IsIdleMonitor(pid_t tid, Seen* seen) {
  constexpr int kMostLooks = 3;  // a thread may just have begun
  if (seen->python_looks >= kMostLooks) return false;
  if (!python_) {
    std::vector<pid_t> tids;
    for (const TaskState& thread : *threads_) tids.push_back(thread.tid);
    python_ = ReadPythonStacks(pid_, tids);
  }
  const bool idle =
      std::any_of(python_->stacks.begin(), python_->stacks.end(), [&](const PythonStack& stack) {
        return stack.tid == tid && stack.note.empty() && collector::IsIdleMonitor(stack.frames);
      });
  seen->python_looks += !idle;
  return idle;
}

ThreadSleeps::Look ThreadSleeps::Of(const TaskState& thread) {
  auto [it, added] = seen_.try_emplace(thread.tid);
  Seen& seen = it->second;
  // 0: this kernel does not count them, so each round looks again.
  if (!added && thread.context_switches != 0 && seen.context_switches == thread.context_switches) {
    return seen.look;
  }
  seen.context_switches = thread.context_switches;
  seen.look = {};
  const std::optional<SystemCall> call = ReadSystemCall(pid_, thread.tid);
  if (!call) return seen.look;
  seen.look.sleep = SleepOf(pid_, *call, *threads_);
  if (seen.look.sleep != ThreadSleep::kOutside) return seen.look;
  if (seen.role == ThreadRole::kUnknown || seen.start != thread.stat.start) {
    if (seen.start != thread.stat.start) seen.python_looks = 0;
    seen.role = ThreadRole::kUnknown;
    seen.start = thread.stat.start;
    if (!code_) code_ = ReadCode(pid_);
    seen.look.library = BelongsToLibrary(pid_, call->stack_pointer, *code_);
    if (!seen.look.library) seen.role = roles_.Of(pid_, call->stack_pointer, *code_);
    if (!seen.look.library && seen.role == ThreadRole::kUnknown) {
      seen.look.library = IsIdleMonitor(thread.tid, &seen);
    }
  }
  if (const Look look = ByRole(thread); look.library) seen.look = look;
  if (seen.role == ThreadRole::kOperations) seen.look.sleep = ThreadSleep::kOperation;
  return seen.look;
}

}  // namespace gordian::collector
