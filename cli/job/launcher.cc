#include "cli/job/launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace gordian::cli {
namespace {

constexpr int kTaken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool IsIgnored(int number) {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));  // exec does not write to it
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<int> OpenDescriptors() {
  std::vector<int> open;
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) {
    return open;
  }
  while (const dirent* entry = readdir(dir)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(dir)) {
      open.push_back(fd);
    }
  }
  closedir(dir);
  return open;
}

}  // namespace

InheritedDescriptors::InheritedDescriptors() : inherited_(OpenDescriptors()) {}

void InheritedDescriptors::KeepOthersFromChildren() const {
  for (const int fd : OpenDescriptors()) {
    if (std::find(inherited_.begin(), inherited_.end(), fd) == inherited_.end()) {
      fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }
}

SignalInbox::SignalInbox() {
  sigemptyset(&reset_to_default_);
  // gordian must survive a write to a closed pipe, and to a file that may not grow (ulimit -f).
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    if (IsIgnored(number)) continue;
    signal(number, SIG_IGN);
    sigaddset(&reset_to_default_, number);
  }
  signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD would discard the children's exit statuses

  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (int number : kTaken) {
    // A signal that our parent ignores (nohup, a background job) stays ignored for both.
    if (!IsIgnored(number)) {
      sigaddset(&taken, number);
    }
  }
  pthread_sigmask(SIG_BLOCK, &taken, &original_mask_);
  const int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  fd_ = fd;
}

SignalInbox::~SignalInbox() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::optional<SignalInbox::Received> SignalInbox::Next() {
  signalfd_siginfo info{};
  if (read(fd_, &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  return Received{.number = static_cast<int>(info.ssi_signo),
                  .from_kernel = info.ssi_code == SI_KERNEL};
}

Program FindProgram(const std::string& name, std::string_view search_path) {
  if (name.empty()) {
    return {.path = "", .error = ENOENT};
  }
  if (name.find('/') != std::string::npos) {
    struct stat info {};
    if (stat(name.c_str(), &info) != 0) {
      return {.path = "", .error = errno};
    }
    const bool can = !S_ISDIR(info.st_mode) && access(name.c_str(), X_OK) == 0;
    return {.path = can ? name : "", .error = can ? 0 : EACCES};
  }
  int error = ENOENT;
  while (true) {
    const size_t end = search_path.find(':');
    const std::string folder(search_path.substr(0, end));
    const std::string path = folder.empty() ? "./" + name : folder + "/" + name;
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
      if (access(path.c_str(), X_OK) == 0) {
        return {.path = path, .error = 0};
      }
      error = EACCES;
    }
    if (end == std::string_view::npos) {
      return {.path = "", .error = error};
    }
    search_path.remove_prefix(end + 1);
  }
}

Launched Launch(const LaunchRequest& request, const SignalInbox& signals) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &signals.original_mask());
  posix_spawnattr_setsigdefault(&attributes, &signals.reset_to_default());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (request.aside) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  const std::vector<char*> environment = Pointers(request.environment);
  Launched launched;
  launched.error = posix_spawn(&launched.pid, request.path.c_str(), &actions, &attributes,
                               Pointers(request.argv).data(), environment.data());
  if (launched.error == ENOEXEC) {
    std::vector<std::string> argv = {"sh", request.path};
    argv.insert(argv.end(), request.argv.begin() + 1, request.argv.end());
    launched.error = posix_spawn(&launched.pid, "/bin/sh", &actions, &attributes,
                                 Pointers(argv).data(), environment.data());
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (launched.error != 0) {
    launched.pid = 0;
  }
  return launched;
}

int ExitCodeOfExecError(int error) { return error == ENOENT || error == ENOTDIR ? 127 : 126; }

std::string DescribeExecError(const std::string& name, int error) {
  std::string text = "cannot run " + (name.empty() ? "''" : name) + ": " + strerror(error);
  if (error == ENOENT && name.find('/') == std::string::npos) {
    text = "cannot run " + (name.empty() ? "''" : name) + ": not found in PATH";
  } else if (error == EACCES) {
    text += " (is it a program, and executable? try: chmod +x " + name + ")";
  }
  return text;
}

int ExitCodeOfStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace gordian::cli
