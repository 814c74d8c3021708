// Reads what /proc says about a process. Every function reads afresh and keeps nothing, and treats
// names and paths as hostile text. The kernel reuses pids, so callers compare start times.
#ifndef GORDIAN_COLLECTOR_PROCESS_PROC_READER_H_
#define GORDIAN_COLLECTOR_PROCESS_PROC_READER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gordian::collector {

// One line of /proc/PID/stat or /proc/PID/task/TID/stat.
struct TaskStat {
  std::string name;        // comm, unescaped
  char state = '?';        // R S D T t Z X I ...
  uint64_t cpu_ticks = 0;  // utime + stime
  uint64_t start = 0;      // field 22, clock ticks since boot
  uint64_t threads = 0;    // field 20: of the process, with a main thread that is a zombie
  int exit_status = 0;     // field 52, as waitpid has it; meaningful for Z only

  // Of a process: some thread of it runs. One whose main thread has left by pthread_exit is shown
  // as a zombie and runs on.
  bool alive() const { return state != 'X' && (state != 'Z' || threads > 1); }
};

// Returns nullopt for a line of another shape.
std::optional<TaskStat> ParseTaskStat(std::string_view line);

// Returns nullopt if there is no such process or thread.
std::optional<TaskStat> ReadProcessStat(pid_t pid);

std::optional<TaskStat> ReadTaskStat(pid_t pid, pid_t tid);

struct TaskState {
  pid_t tid = 0;
  TaskStat stat;
  uint64_t context_switches = 0;  // times on a processor; 0: this kernel does not count them
};

// All threads of a process; empty if it has ended or belongs to another user.
std::vector<TaskState> ReadTasks(pid_t pid);

// One line of /proc/PID/task/TID/syscall of a thread that sleeps in a system call.
struct SystemCall {
  long number = -1;
  std::array<uint64_t, 6> arguments = {};
  uint64_t stack_pointer = 0;
};
// Returns nullopt for a thread that runs or is in no system call.
std::optional<SystemCall> ParseSystemCall(std::string_view line);

std::optional<SystemCall> ReadSystemCall(pid_t pid, pid_t tid);

// A mapping with execute permission.
struct ExecutableMapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  std::string path;  // " (deleted)" cut off; empty or in brackets: of no file

  friend bool operator==(const ExecutableMapping&, const ExecutableMapping&) = default;
};
std::vector<ExecutableMapping> ParseMaps(std::string_view maps);
std::vector<ExecutableMapping> ReadMaps(pid_t pid);
// As ReadMaps, with code that is of no file, generated or the kernel's.
std::vector<ExecutableMapping> ReadCode(pid_t pid);

// True if the process handles a signal that a timer sends: SIGALRM, SIGVTALRM or SIGPROF.
bool HandlesTimerSignals(pid_t pid);

// The target of /proc/PID/exe; empty if it cannot be read.
std::string ReadExecutable(pid_t pid);
// Arguments joined by spaces, cut at 4 KiB.
std::string ReadCommandLine(pid_t pid);

// A variable of the environment that the process started with; nullopt if unset or unreadable.
std::optional<std::string> ReadEnvironmentVariable(pid_t pid, std::string_view name);

// Whose rank a process is, by the environment that it started with. Two jobs under one launcher have
// the same ranks and meet elsewhere.
struct RankName {
  std::string ring_dir;                 // GORDIAN_RING_DIR
  std::string rank;                     // RANK or what MPI, PMI or Slurm call it; empty: no rank
  std::optional<std::string> meets_at;  // MASTER_ADDR, MASTER_PORT; nullopt: not known
};
// Empty strings if the environment cannot be read.
RankName ReadRankName(pid_t pid);
struct SameRank {
  std::vector<pid_t> pids;  // living processes of that name, zombies aside
  // Processes without an environment. The kernel shows none in the middle of an exec, so that they
  // may be of that name, too.
  std::vector<pid_t> bare;
};
SameRank FindByRankName(const RankName& name);

// NAME=VALUE of the NCCL and CUDA variables that the process started with, sorted; at most 64 of at
// most 256 bytes each. Does not see variables that the process set for itself.
std::vector<std::string> ReadSettings(pid_t pid);

// The build id of an ELF file in lower-case hex; empty if it has none or is no ELF file.
std::string ReadBuildId(const std::string& path);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_PROC_READER_H_
