// Reads processes from /proc: which live, which descend from which; and ends all of them.
#ifndef GORDIAN_CLI_JOB_PROCESS_TREE_H_
#define GORDIAN_CLI_JOB_PROCESS_TREE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gordian::cli {

// Identifies a process on this node: the kernel reuses pids, so the key adds the start time (field
// 22 of /proc/PID/stat, in clock ticks since boot).
struct ProcessKey {
  pid_t pid = 0;
  uint64_t start = 0;
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

struct ProcessStat {
  ProcessKey key;
  pid_t parent = 0;
  char state = '?';  // R, S, D, T, Z ... as in /proc/PID/stat
  long threads = 0;  // with a main thread that is a zombie

  // A process whose main thread has left by pthread_exit is shown as a zombie and runs on.
  bool alive() const { return state != 'X' && state != 'x' && (state != 'Z' || threads > 1); }
};

// Returns nullopt if there is no such process (any more).
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// True if that very process exists and some thread of it runs.
bool IsAlive(const ProcessKey& key);

// All living processes below `root`, without `root` itself, `spared`, and the descendants of
// `spared`.
std::vector<ProcessKey> Descendants(pid_t root, const std::vector<pid_t>& spared);

// SIGKILLs what `find` returns until it returns nothing: a process may have forked just before it
// died. Calls `between` after each pass, for reaping. Gives up after `limit` (a process may be in
// an uninterruptible sleep) and returns how many still lived.
size_t KillUntilGone(const std::function<std::vector<ProcessKey>()>& find,
                     const std::function<void()>& between, std::chrono::milliseconds limit);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_PROCESS_TREE_H_
