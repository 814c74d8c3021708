// What /proc says about a process. Every function reads afresh, keeps nothing, and takes text that
// it did not write (names, paths) as hostile. Pids may be reused: callers compare start times.
#ifndef GORDIAN_COLLECTOR_PROC_READER_H_
#define GORDIAN_COLLECTOR_PROC_READER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gordian::collector {

// One line of /proc/PID/stat or /proc/PID/task/TID/stat.
struct TaskStat {
  std::string name;        // comm, as it stands there
  char state = '?';        // R S D T t Z X I ...
  uint64_t cpu_ticks = 0;  // utime + stime
  uint64_t start = 0;      // field 22, clock ticks since boot
  int exit_status = 0;     // field 52, as waitpid has it; meaningful for Z only
};

// nullopt: not a line of that shape.
std::optional<TaskStat> ParseTaskStat(std::string_view line);

// nullopt: no such process or thread.
std::optional<TaskStat> ReadProcessStat(pid_t pid);

std::optional<TaskStat> ReadTaskStat(pid_t pid, pid_t tid);

struct TaskState {
  pid_t tid = 0;
  TaskStat stat;
  uint64_t context_switches =
      0;  // how often it was put on a processor; 0: the kernel does not tell
};

// All threads of a process; empty: it has gone, or is none of ours.
std::vector<TaskState> ReadTasks(pid_t pid);

// A mapping of a file with execute permission.
struct ExecutableMapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  std::string path;  // " (deleted)" cut off

  friend bool operator==(const ExecutableMapping&, const ExecutableMapping&) = default;
};
std::vector<ExecutableMapping> ParseMaps(std::string_view maps);
std::vector<ExecutableMapping> ReadMaps(pid_t pid);

// Target of /proc/PID/exe; empty: not to be had.
std::string ReadExecutable(pid_t pid);
// Arguments joined by spaces, cut at 4 KiB.
std::string ReadCommandLine(pid_t pid);

// From the environment that the process was started with; nullopt: not set there, or not to be had.
std::optional<std::string> ReadEnvironmentVariable(pid_t pid, std::string_view name);

// NAME=VALUE of NCCL's and CUDA's variables that it was started with, sorted; at most 64, each of
// at most 256 bytes. What it has set for itself since is not in there.
std::vector<std::string> ReadSettings(pid_t pid);

// Build id of an ELF file as lower-case hex; empty: none, or no ELF file.
std::string ReadBuildId(const std::string& path);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROC_READER_H_
