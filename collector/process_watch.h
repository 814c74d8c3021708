// Which processes there are, whether they live, and how they ended.
#ifndef GORDIAN_COLLECTOR_PROCESS_WATCH_H_
#define GORDIAN_COLLECTOR_PROCESS_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/proc_reader.h"
#include "common/status.h"

namespace gordian::collector {

// A process for ever, as far as the kernel can say it.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start = 0;  // field 22 of /proc/PID/stat
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// "<pid>.<start>.ring", or "<pid>.<start>.<n>.ring" of a process that has replaced itself by exec n
// times since its first ring file; nothing else.
struct RingName {
  ProcessIdentity identity;
  uint32_t image = 0;  // n
};
std::optional<RingName> ParseRingName(std::string_view file_name);

// Ring files that appear in a folder: those that are there, and by inotify those that come. Where
// inotify is not to be had (limits), every call scans. Not thread-safe.
class RingDirWatch {
 public:
  static StatusOr<std::unique_ptr<RingDirWatch>> Open(const std::string& dir);
  ~RingDirWatch();
  RingDirWatch(const RingDirWatch&) = delete;
  RingDirWatch& operator=(const RingDirWatch&) = delete;

  // To wait on for reading; -1 when there is nothing to wait on: call Poll now and then.
  int fd() const { return inotify_fd_; }

  // Names of ring files that (may) have appeared since the last
  // call. A name comes again when another file takes it; the first call lists all.
  std::vector<std::string> Poll();
  // All that are there now.
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

// Exits that somebody told us of, by pid; a launcher may be faster or slower than we are.
// Thread-safe.
class ExitNotes {
 public:
  void Note(pid_t pid, int wait_status, uint64_t now_ns);
  // Takes the note of `pid` that is not older than `not_before_ns`: an older one was of another
  // process with that pid.
  std::optional<int> Take(pid_t pid, uint64_t not_before_ns);

 private:
  struct NoteOf {
    int wait_status;
    uint64_t time_ns;
  };
  std::mutex mutex_;
  std::unordered_map<pid_t, NoteOf> notes_;
};

// Watches one process until it has ended. Not thread-safe.
class ProcessWatch {
 public:
  explicit ProcessWatch(ProcessIdentity identity);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  const ProcessIdentity& identity() const { return identity_; }
  // Readable once the process has ended; -1: the kernel has no pidfd (before 5.3), or it has gone.
  int pidfd() const { return pidfd_; }

  // Whether all its threads have ended. Once true it stays true. One system call.
  bool Ended();

  // How it ended, from the kernel: what a zombie shows, or what a pidfd keeps after the process was
  // reaped (since 6.15). nullopt: not to be had (any more), ask whoever reaped it.
  std::optional<ExitStatus> KernelExitStatus() const;

 private:
  const ProcessIdentity identity_;
  int pidfd_ = -1;
  bool ended_ = false;
};

// Whether a thread is one that a library keeps for itself and that never calls for the application.
// True only for the names in kLibraryThreadNames (process_watch.cc), and not if the process' own
// main thread or executable is named so too, for names are inherited.
bool IsLibraryThread(std::string_view name, std::string_view main_thread_name,
                     std::string_view executable);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_WATCH_H_
