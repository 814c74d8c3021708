// Processes as /proc shows them: who is alive, who descends from whom, and how to end all of them.
#ifndef GORDIAN_CLI_PROCESS_TREE_H_
#define GORDIAN_CLI_PROCESS_TREE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gordian::cli {

// A process for ever: its pid, and when it started (field 22 of /proc/PID/stat, in clock ticks
// since boot), because pids are used again.
struct ProcessKey {
  pid_t pid = 0;
  uint64_t start = 0;
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

struct ProcessStat {
  ProcessKey key;
  pid_t parent = 0;
  char state = '?';  // R, S, D, T, Z ... as in /proc/PID/stat
  bool alive() const { return state != 'Z' && state != 'X' && state != 'x'; }
};

// nullopt: no such process (any more).
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// That very process, and no zombie.
bool IsAlive(const ProcessKey& key);

// All living processes below `root` (which is not among them) except `spared` and what is below it.
std::vector<ProcessKey> Descendants(pid_t root, const std::vector<pid_t>& spared);

// SIGKILLs what `find` returns, again and again, until it returns nothing: a process may have
// forked just before it died. Gives up after `limit` (a process in an uninterruptible sleep);
// returns how many were still alive then. Calls `between` after each pass, for reaping.
size_t KillUntilGone(const std::function<std::vector<ProcessKey>()>& find,
                     const std::function<void()>& between, std::chrono::milliseconds limit);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PROCESS_TREE_H_
