#include "emulator/engine/process/process_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gordian::emu {
namespace {

std::string ReadText(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[4096];
  const ssize_t n = read(fd, text, sizeof(text));
  close(fd);
  return n <= 0 ? "" : std::string(text, static_cast<size_t>(n));
}

bool IsListed(const std::string& name, const std::string& list) {
  for (size_t start = 0; start < list.size();) {
    size_t end = list.find(',', start);
    if (end == std::string::npos) end = list.size();
    if (end > start && list.compare(start, end - start, name) == 0) return true;
    start = end + 1;
  }
  return false;
}

// System calls that only another thread or process ends, and the argument (from 0) that holds their
// timeout, which must be as `none` says. -1: no timeout argument.
struct Waiting {
  long number;
  const char* name;
  int timeout_argument;
  int64_t none;
};
constexpr Waiting kWaiting[] = {
    {SYS_read, "read", -1, 0},
    {SYS_readv, "readv", -1, 0},
    {SYS_recvfrom, "recvfrom", -1, 0},
    {SYS_recvmsg, "recvmsg", -1, 0},
    {SYS_accept, "accept", -1, 0},
    {SYS_accept4, "accept4", -1, 0},
    {SYS_wait4, "wait4", -1, 0},
    {SYS_waitid, "waitid", -1, 0},
#ifdef SYS_pause  // AArch64 has the newer forms of these four alone
    {SYS_pause, "pause", -1, 0},
    {SYS_poll, "poll", 2, -1},
    {SYS_select, "select", 4, 0},
    {SYS_epoll_wait, "epoll_wait", 3, -1},
#endif
    {SYS_rt_sigsuspend, "rt_sigsuspend", -1, 0},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", 2, 0},
    {SYS_ppoll, "ppoll", 2, 0},
    {SYS_pselect6, "pselect6", 4, 0},
    {SYS_epoll_pwait, "epoll_pwait", 3, -1},
    {SYS_msgrcv, "msgrcv", -1, 0},
    {SYS_semop, "semop", -1, 0},
    {SYS_flock, "flock", -1, 0},
};

bool WaitsWithoutTimeout(const std::string& text, std::string* name) {
  long number = 0;
  uint64_t arguments[6] = {};
  if (sscanf(text.c_str(), "%ld %lx %lx %lx %lx %lx %lx", &number, &arguments[0], &arguments[1],
             &arguments[2], &arguments[3], &arguments[4], &arguments[5]) < 7) {
    return false;
  }
  if (number == SYS_futex) {
    *name = "futex";
    const int command = static_cast<int>(arguments[1]) & FUTEX_CMD_MASK;
    const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ||
                       command == FUTEX_LOCK_PI || command == FUTEX_WAIT_REQUEUE_PI;
    return waits && arguments[3] == 0;
  }
  for (const Waiting& waiting : kWaiting) {
    if (waiting.number != number) continue;
    *name = waiting.name;
    if (waiting.timeout_argument < 0) return true;
    const uint64_t timeout = arguments[waiting.timeout_argument];
    // poll's and epoll's are ints; the others' are pointers.
    return waiting.none == 0 ? timeout == 0 : static_cast<int32_t>(timeout) < 0;
  }
  *name = std::to_string(number);
  return false;
}

uint64_t Switches(const std::string& status) {
  uint64_t sum = 0;
  for (const char* p = status.c_str(); (p = strstr(p, "ctxt_switches:")) != nullptr;) {
    p += strlen("ctxt_switches:");
    sum += strtoull(p, nullptr, 10);
  }
  return sum;
}

}  // namespace

bool LookAtThreads(const std::string& ignored, std::vector<ThreadView>* threads) {
  threads->clear();
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return false;
  const int self = static_cast<int>(syscall(SYS_gettid));
  bool readable = true;
  while (const dirent* entry = readdir(folder)) {
    const int thread = atoi(entry->d_name);
    if (thread == 0 || thread == self) continue;
    const std::string path = std::string("/proc/self/task/") + entry->d_name;
    ThreadView view;
    view.thread = thread;
    view.name = ReadText(path + "/comm");
    if (!view.name.empty() && view.name.back() == '\n') view.name.pop_back();
    if (IsListed(view.name, ignored)) continue;
    const std::string text = ReadText(path + "/syscall");
    const std::string status = ReadText(path + "/status");
    if (status.empty()) continue;  // it has just ended
    if (text.empty()) readable = false;
    const size_t state = status.find("State:");
    const bool sleeps =
        state != std::string::npos && status.compare(state, strlen("State:\tS"), "State:\tS") == 0;
    view.asleep = WaitsWithoutTimeout(text, &view.system_call) && sleeps;
    view.switches = Switches(status);
    threads->push_back(view);
  }
  closedir(folder);
  return readable;
}

}  // namespace gordian::emu
