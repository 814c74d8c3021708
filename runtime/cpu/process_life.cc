#include "runtime/cpu/process_life.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gordian::runtime {

namespace {

// What /proc/<pid>/stat says: state is the third field, start_time the 22nd. False: it cannot be
// read.
struct Stat {
  char state = '\0';
  uint64_t start_time = 0;
};
bool ReadStat(pid_t pid, Stat* out) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  // The second field, in parentheses, may hold anything.
  const char* at = strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return false;
  out->state = at[2];
  for (int field = 2; at != nullptr && field < 22; ++field) at = strchr(at + 1, ' ');
  out->start_time = at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
  return true;
}

}  // namespace

uint64_t StartTime(pid_t pid) {
  Stat stat;
  return ReadStat(pid, &stat) ? stat.start_time : 0;
}

bool IsStopped(pid_t pid, uint64_t start_time, uint64_t pid_namespace) {
  if (pid_namespace == 0 || pid_namespace != PidNamespace()) return false;
  Stat stat;
  return ReadStat(pid, &stat) && stat.start_time == start_time &&
         (stat.state == 'T' || stat.state == 't');
}

uint64_t PidNamespace() {
  struct stat about;
  return stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

ProcessLife::~ProcessLife() {
  if (pidfd_ >= 0) close(pidfd_);
}

bool ProcessLife::HasEnded(pid_t pid, uint64_t start_time, uint64_t pid_namespace) {
  if (ended_) return true;
  if (pid == getpid()) return false;
  if (!looked_) {
    if (pid_namespace == 0 || pid_namespace != PidNamespace()) return false;
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd_ < 0 && errno == ESRCH) return ended_ = true;
    if (pidfd_ < 0) return false;
    looked_ = true;
    // The number may have passed on to another process before it was opened.
    const uint64_t now = StartTime(pid);
    if (start_time != 0 && now != 0 && now != start_time) return ended_ = true;
  }
  pollfd poll_it = {pidfd_, POLLIN, 0};
  if (poll(&poll_it, 1, 0) == 1 && (poll_it.revents & POLLIN) != 0) ended_ = true;
  return ended_;
}

}  // namespace gordian::runtime
