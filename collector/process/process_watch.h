// Finds processes by their ring files, sees whether they live, and learns how they ended.
#ifndef GORDIAN_COLLECTOR_PROCESS_PROCESS_WATCH_H_
#define GORDIAN_COLLECTOR_PROCESS_PROCESS_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/process/proc_reader.h"
#include "common/status.h"

namespace gordian::collector {

// Identifies a process on its node: the kernel reuses pids, but not with the same start time.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start = 0;  // field 22 of /proc/PID/stat
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Parses "<pid>.<start>.ring", or "<pid>.<start>.<n>.ring" after the n-th exec since the process's
// first ring file; rejects all other names.
struct RingName {
  ProcessIdentity identity;
  uint32_t image = 0;  // n
};
std::optional<RingName> ParseRingName(std::string_view file_name);

// Lists the ring files of a folder: those present, then, by inotify, each new one. Scans on every
// call where inotify is not available. Not thread-safe.
class RingDirWatch {
 public:
  static StatusOr<std::unique_ptr<RingDirWatch>> Open(const std::string& dir);
  ~RingDirWatch();
  RingDirWatch(const RingDirWatch&) = delete;
  RingDirWatch& operator=(const RingDirWatch&) = delete;

  // Readable when a file appears; -1 without inotify: call Poll now and then.
  int fd() const { return inotify_fd_; }

  // Names of ring files that may have appeared since the last call; the first call lists all. A
  // name comes again when another file takes it.
  std::vector<std::string> Poll();
  // All ring files present now.
  std::vector<std::string> Scan() const;

 private:
  RingDirWatch(std::string dir, int inotify_fd);
  const std::string dir_;
  const int inotify_fd_;
  bool scan_next_ = true;
};

struct ExitStatus {
  enum class How { kCode, kSignal, kUnknown };
  How how = How::kUnknown;
  int value = 0;
};
ExitStatus FromWaitStatus(int wait_status);

// Exit statuses that a launcher passed on, by pid; they may come before or after the collector
// needs them. Thread-safe.
class ExitNotes {
 public:
  void Note(pid_t pid, int wait_status, uint64_t now_ns);
  // Takes the note of `pid` unless it is older than `not_before_ns`: an older one belongs to an
  // earlier process with that pid.
  std::optional<int> Take(pid_t pid, uint64_t not_before_ns);

 private:
  struct NoteOf {
    int wait_status;
    uint64_t time_ns;
  };
  std::mutex mutex_;
  std::unordered_map<pid_t, NoteOf> notes_;
};

// Watches one process until it ends. Not thread-safe.
class ProcessWatch {
 public:
  explicit ProcessWatch(ProcessIdentity identity);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  const ProcessIdentity& identity() const { return identity_; }
  // Readable once the process has ended; -1 if the kernel has no pidfds (before 5.3) or the process
  // is gone.
  int pidfd() const { return pidfd_; }

  // True once all its threads have ended, and from then on. One system call.
  bool Ended();

  // How it ended, from the kernel: from a zombie, or from the pidfd of a reaped process (since
  // 6.15). nullopt if the kernel has no status (any more): its parent then has it.
  std::optional<ExitStatus> KernelExitStatus() const;

 private:
  const ProcessIdentity identity_;
  int pidfd_ = -1;
  bool ended_ = false;
};

// True for a thread that a library runs for itself and that never makes calls for the application.
// Knows such threads by kLibraryThreadNames (process_watch.cc); false if the process's main thread
// or executable has such a name too, since threads inherit names.
bool IsLibraryThread(std::string_view name, std::string_view main_thread_name,
                     std::string_view executable);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_PROCESS_WATCH_H_
