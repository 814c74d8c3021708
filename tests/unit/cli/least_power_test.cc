#include "cli/least_power.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace gordian::cli {
namespace {

// What a process that keeps only `needs` may still do, a letter each.
std::string Can(const Needs& needs) {
  const pid_t other = fork();
  if (other == 0) {
    pause();
    _exit(0);
  }
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    std::thread earlier([&] {
      int signal = 0;
      sigset_t wait;
      sigemptyset(&wait);
      sigaddset(&wait, SIGUSR1);
      sigwait(&wait, &signal);
    });
    std::string can;
    if (!KeepOnly(needs).ok()) can += "!";
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) can += "n";
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) can += "o";
    if (socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno != EPERM) can += "s";
    if (kill(other, 0) == 0 || errno != EPERM) can += "k";
    char byte = 0;
    iovec here{&byte, 1}, there{&byte, 1};
    if (process_vm_readv(other, &here, 1, &there, 1, 0) == 1 || errno != EPERM) can += "r";
    char program[] = "/nowhere";
    char* arguments[] = {program, nullptr};
    execve("/nowhere", arguments, nullptr);
    if (errno != EPERM) can += "e";
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
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
  return can;
}

TEST(LeastPower, KeepsWhatAVerbNeeds) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "no filter in this build";
#endif
  const std::string files = Can({});
  if (files.starts_with("!")) GTEST_SKIP() << "this machine allows no seccomp filter";
  EXPECT_EQ(files, "no");
  EXPECT_EQ(Can({.network = true}), "nos");
  EXPECT_EQ(Can({.processes = true}), "nokr");
  EXPECT_EQ(Can({.network = true, .processes = true}), "noskr");
}

}  // namespace
}  // namespace gordian::cli
