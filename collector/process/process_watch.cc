#include "collector/process/process_watch.h"

#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

namespace gordian::collector {
namespace {

constexpr std::string_view kRingSuffix = ".ring";

// linux/pidfd.h of 6.15 and later; the build's headers may be older. The kernel takes the size of
// the structure from the request's number and fills what it knows.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t pid, tgid, ppid;
  uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kPidfdInfoExit = 1u << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// Names that libraries give their threads.
//   gordian-         the shim's watcher, and the runtime's threads (common/service_thread.h)
//   emu-             the emulated libraries' devices and proxies
//   NCCL             "NCCL Progress 0", "NCCL Service 0", "NCCL UDS Service", "NCCL RAS", ...
//   cuda-EvtHandlr   the CUDA driver's event handler; cuda0...: its other threads
constexpr std::string_view kLibraryThreadNames[] = {"gordian-", "emu-", "NCCL ", "cuda-EvtHandlr",
                                                    "cuda0"};

bool NamedLikeLibraryThread(std::string_view name) {
  return std::any_of(std::begin(kLibraryThreadNames), std::end(kLibraryThreadNames),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::optional<RingName> ParseRingName(std::string_view file_name) {
  if (!file_name.ends_with(kRingSuffix)) {
    return std::nullopt;
  }
  file_name.remove_suffix(kRingSuffix.size());
  RingName out;
  uint64_t numbers[3] = {0, 0, 0};
  size_t count = 0;
  for (bool more = true; more; ++count) {
    const size_t end = file_name.find('.');
    more = end != std::string_view::npos;
    const std::string_view digits = file_name.substr(0, end);
    file_name.remove_prefix(more ? end + 1 : file_name.size());
    if (count == std::size(numbers) || digits.empty()) {
      return std::nullopt;
    }
    const char* const last = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), last, numbers[count]);
    if (error != std::errc() || stop != last) {
      return std::nullopt;
    }
  }
  if (count < 2 || numbers[0] == 0 || numbers[0] > INT_MAX || numbers[2] > UINT32_MAX) {
    return std::nullopt;
  }
  out.identity = {.pid = static_cast<pid_t>(numbers[0]), .start = numbers[1]};
  out.image = static_cast<uint32_t>(numbers[2]);
  return out;
}

StatusOr<std::unique_ptr<RingDirWatch>> RingDirWatch::Open(const std::string& dir) {
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0) {
    return Status::FromErrno(errno, "cannot use the ring folder " + dir);
  }
  if (!S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument("the ring folder " + dir + " is not a folder");
  }
  int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd >= 0 && inotify_add_watch(fd, dir.c_str(), IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) < 0) {
    close(fd);
    fd = -1;
  }
  return std::unique_ptr<RingDirWatch>(new RingDirWatch(dir, fd));
}

RingDirWatch::RingDirWatch(std::string dir, int inotify_fd)
    : dir_(std::move(dir)), inotify_fd_(inotify_fd) {}

RingDirWatch::~RingDirWatch() {
  if (inotify_fd_ >= 0) {
    close(inotify_fd_);
  }
}

std::vector<std::string> RingDirWatch::Scan() const {
  std::vector<std::string> names;
  DIR* const dir = opendir(dir_.c_str());
  if (dir == nullptr) {
    return names;
  }
  while (const dirent* entry = readdir(dir)) {
    if (ParseRingName(entry->d_name)) {
      names.emplace_back(entry->d_name);
    }
  }
  closedir(dir);
  return names;
}

std::vector<std::string> RingDirWatch::Poll() {
  std::vector<std::string> names;
  if (inotify_fd_ >= 0) {
    alignas(inotify_event) char buffer[16384];
    for (;;) {
      const ssize_t n = read(inotify_fd_, buffer, sizeof(buffer));
      if (n <= 0) {
        break;
      }
      for (ssize_t at = 0; at < n;) {
        inotify_event event;
        std::memcpy(&event, buffer + at, sizeof(event));
        if ((event.mask & IN_Q_OVERFLOW) != 0) {
          scan_next_ = true;
        } else if (event.len > 0) {
          const char* const name = buffer + at + sizeof(event);
          if (ParseRingName(name)) {
            names.emplace_back(name);
          }
        }
        at += static_cast<ssize_t>(sizeof(event) + event.len);
      }
    }
  }
  if (scan_next_ || inotify_fd_ < 0) {
    scan_next_ = false;
    for (std::string& name : Scan()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

ExitStatus FromWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return {ExitStatus::How::kCode, WEXITSTATUS(wait_status)};
  }
  if (WIFSIGNALED(wait_status)) {
    return {ExitStatus::How::kSignal, WTERMSIG(wait_status)};
  }
  return {};
}

void ExitNotes::Note(pid_t pid, int wait_status, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  // The collector takes no notes of processes without a ring; this keeps the table from growing for
  // ever.
  if (notes_.size() >= 65536) {
    notes_.clear();
  }
  notes_[pid] = {wait_status, now_ns};
}

std::optional<int> ExitNotes::Take(pid_t pid, uint64_t not_before_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = notes_.find(pid);
  if (found == notes_.end() || found->second.time_ns < not_before_ns) {
    return std::nullopt;
  }
  const int status = found->second.wait_status;
  notes_.erase(found);
  return status;
}

ProcessWatch::ProcessWatch(ProcessIdentity identity) : identity_(identity) {
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, identity.pid, 0));
  const bool no_such_process = pidfd_ < 0 && errno == ESRCH;
  // Opens first and compares then: if the process is the right one now, so is the descriptor.
  const std::optional<TaskStat> stat = ReadProcessStat(identity.pid);
  if (no_such_process || !stat || stat->start != identity.start) {
    ended_ = true;
    if (pidfd_ >= 0) {
      close(pidfd_);
      pidfd_ = -1;
    }
  }
}

ProcessWatch::~ProcessWatch() {
  if (pidfd_ >= 0) {
    close(pidfd_);
  }
}

bool ProcessWatch::Ended() {
  if (ended_) {
    return true;
  }
  if (pidfd_ >= 0) {
    pollfd fd{.fd = pidfd_, .events = POLLIN, .revents = 0};
    ended_ = poll(&fd, 1, 0) > 0 && (fd.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    return ended_;
  }
  // Without a pidfd: a main thread that has ended is a zombie while other threads still run.
  const std::optional<TaskStat> stat = ReadProcessStat(identity_.pid);
  if (!stat || stat->start != identity_.start) {
    ended_ = true;
  } else if (stat->state == 'Z' || stat->state == 'X') {
    const std::vector<TaskState> tasks = ReadTasks(identity_.pid);
    ended_ = std::all_of(tasks.begin(), tasks.end(), [](const TaskState& task) {
      return task.stat.state == 'Z' || task.stat.state == 'X';
    });
  }
  return ended_;
}

std::optional<ExitStatus> ProcessWatch::KernelExitStatus() const {
  // Asks for the zombie first: while it exists, the pidfd gives no status.
  struct stat owner {};
  const std::string path = "/proc/" + std::to_string(identity_.pid);
  const std::optional<TaskStat> stat_now = ReadProcessStat(identity_.pid);
  if (stat_now && stat_now->start == identity_.start && stat_now->state == 'Z' &&
      stat(path.c_str(), &owner) == 0 && (geteuid() == 0 || owner.st_uid == geteuid())) {
    return FromWaitStatus(stat_now->exit_status);  // 0 for other users' processes, hence the check
  }
  if (pidfd_ >= 0) {
    PidfdInfo info{};
    info.mask = kPidfdInfoExit;
    if (ioctl(pidfd_, kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0) {
      return FromWaitStatus(info.exit_code);
    }
  }
  return std::nullopt;
}

bool IsLibraryThread(std::string_view name, std::string_view main_thread_name,
                     std::string_view executable) {
  const size_t slash = executable.rfind('/');
  const std::string_view program =
      slash == std::string_view::npos ? executable : executable.substr(slash + 1);
  return NamedLikeLibraryThread(name) && name != main_thread_name &&
         !NamedLikeLibraryThread(main_thread_name) && !NamedLikeLibraryThread(program);
}

}  // namespace gordian::collector
