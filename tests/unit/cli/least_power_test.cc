#include "cli/least_power.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

namespace gordian::cli {
namespace {

// What this process can do now, a letter each.
std::string Can(pid_t child) {
  std::string can;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) can += "n";
  if (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) can += "o";
  if (socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno != EPERM) can += "s";
  if (kill(child, 0) == 0 || errno != EPERM) can += "k";
  if (syscall(SYS_tgkill, child, child, 0) == 0 || errno != EPERM) can += "t";
  if (raise(0) != 0) can += "!";
  char byte = 0;
  iovec here{&byte, 1}, there{&byte, 1};
  if (process_vm_readv(child, &here, 1, &there, 1, 0) == 1 || errno != EPERM) can += "r";
  char program[] = "/nowhere";
  char* arguments[] = {program, nullptr};
  execve(program, arguments, nullptr);
  if (errno != EPERM) can += "e";
  return can;
}

// The same of a process that keeps only `needs`: of its first thread, and of one that was there.
std::string CanWith(const Needs& needs) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    int life[2];
    if (pipe2(life, O_CLOEXEC) != 0) _exit(1);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      close(life[1]);
      char none = 0;
      _exit(static_cast<int>(read(life[0], &none, 1)));  // until its parent ends
    }
    std::promise<void> dropped;
    std::string other;
    std::thread earlier([&] {
      dropped.get_future().wait();
      other = Can(child);
    });
    std::string can = KeepOnly(needs).ok() ? "" : "none ";
    dropped.set_value();
    earlier.join();
    can += Can(child) + " " + other;
    (void)!write(ends[1], can.data(), can.size());
    _exit(0);
  }
  close(ends[1]);
  std::string can;
  char buffer[64];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    can.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  return can;
}

TEST(LeastPower, KeepsWhatAVerbNeeds) {
  const std::string files = CanWith({});
  if (files.starts_with("none")) GTEST_SKIP() << "this machine allows no seccomp filter";
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "no filter in this build";
#endif
  EXPECT_EQ(files, "no no");
  EXPECT_EQ(CanWith({.network = true}), "nos nos");
  EXPECT_EQ(CanWith({.processes = true}), "noktr noktr");
  EXPECT_EQ(CanWith({.network = true, .processes = true}), "nosktr nosktr");
}

}  // namespace
}  // namespace gordian::cli
