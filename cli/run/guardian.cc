#include "cli/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "cli/job/ring_folder.h"
#include "cli/output.h"

namespace gordian::cli {
namespace {

constexpr int kWatchMs = 200;

// Closes the descriptors from `first` to `last`; Linux before 5.9 has no call for it.
void CloseRange(unsigned int first, unsigned int last) {
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  std::error_code error;
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const unsigned long fd = strtoul(entry.path().filename().c_str(), nullptr, 10);
    if (fd >= first && fd <= last) open.push_back(static_cast<int>(fd));
  }
  for (const int fd : open) close(fd);
}

// Closes every descriptor of the caller but the folders': a pipe or terminal that the guardian held
// open would keep its reader waiting. The guardian's own pipe becomes descriptor 3.
void DropFiles(int pipe, const OwnedFolder& rings, const OwnedFolder* session) {
  const int safe = fcntl(pipe, F_DUPFD, 10);
  for (int fd = 0; fd < 3; ++fd) {
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0 && null != fd) {
      dup2(null, fd);
      close(null);
    }
  }
  dup2(safe, 3);
  unsigned int next = 4;
  std::set<int> all;
  for (const int kept : rings.Descriptors()) all.insert(kept);
  if (session != nullptr) {
    for (const int kept : session->Descriptors()) all.insert(kept);
  }
  for (const int kept : all) {
    const auto fd = static_cast<unsigned int>(kept);
    if (fd > next) CloseRange(next, fd - 1);
    next = fd + 1;
  }
  CloseRange(next, ~0U);
}

// Reads lines ("job PID START", "leave") until `run` says "leave" (true) or its end closes (false).
bool Listen(int pipe, std::optional<ProcessKey>* job) {
  std::string text;
  while (true) {
    char buffer[256];
    const ssize_t n = read(pipe, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    text.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const std::string line = text.substr(0, end);
      int pid = 0;
      unsigned long long start = 0;
      if (line == "leave") {
        return true;
      }
      if (sscanf(line.c_str(), "job %d %llu", &pid, &start) == 2) {
        *job = ProcessKey{.pid = pid, .start = start};
      }
    }
  }
}

[[noreturn]] void RunGuardian(int pipe, const OwnedFolder& rings, const OwnedFolder* session) {
  setsid();  // signals sent to the job's group must not reach the guardian
  for (int signal_number : {SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) {
    signal(signal_number, SIG_IGN);
  }
  prctl(PR_SET_NAME, "gordian-guard");
  DropFiles(pipe, rings, session);
  pipe = 3;
  if (chdir("/") != 0) {
    // Only a file system that cannot be unmounted a while longer is at stake.
  }
  std::optional<ProcessKey> job;
  if (Listen(pipe, &job)) {
    _exit(0);
  }
  while (SweepRings(rings, session) > 0 || (job && IsAlive(*job))) {
    poll(nullptr, 0, kWatchMs);
  }
  (void)RemoveRingFolder(rings);  // `run`, which would print why not, is gone
  _exit(0);
}

}  // namespace

Status Guardian::Start(const OwnedFolder& rings, const OwnedFolder* session) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status::FromErrno(errno, "cannot make the guardian's pipe");
  }
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    return Status::FromErrno(error, "cannot start the guardian");
  }
  if (pid == 0) {
    close(ends[1]);
    RunGuardian(ends[0], rings, session);
  }
  close(ends[0]);
  pid_ = pid;
  pipe_ = ends[1];
  return Status::Ok();
}

void Guardian::Send(const std::string& line) {
  if (pipe_ >= 0) {
    WriteAll(pipe_, line + "\n");  // SIGPIPE is ignored by `run`
  }
}

void Guardian::SetJob(const ProcessKey& job) {
  Send("job " + std::to_string(job.pid) + " " + std::to_string(job.start));
}

void Guardian::Leave() {
  if (pid_ == 0) {
    return;
  }
  Send("leave");
  close(pipe_);
  pipe_ = -1;
  // The guardian leaves at once, unless a signal has stopped it.
  for (int tries = 0; waitpid(pid_, nullptr, WNOHANG) == 0; ++tries) {
    if (tries == 200) {
      kill(pid_, SIGKILL);
    }
    poll(nullptr, 0, 5);
  }
  pid_ = 0;
}

}  // namespace gordian::cli
