#include "cli/incidents/alert_commands.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "cli/job/job_environment.h"

namespace gordian::cli {
namespace {

constexpr std::chrono::seconds kLongest(60);

}  // namespace

AlertCommands::AlertCommands() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

AlertCommands::~AlertCommands() {
  Stop();
  close(wake_fd_);
}

int AlertCommands::Run(const std::string& command, const incidents::AlertEnvironment& environment) {
  const auto wanted = std::make_shared<Command>();
  wanted->text = command;
  wanted->environment = environment;
  std::unique_lock lock(mutex_);
  if (stopping_) return -1;
  commands_.push_back(wanted);
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) {
    // The counter is full, so the descriptor is readable already.
  }
  changed_.wait_for(lock, kLongest, [&] { return wanted->ended || stopping_; });
  // Its number is its own until it has been reaped, which takes this lock.
  if (!wanted->ended && !stopping_ && wanted->pid > 0) kill(wanted->pid, SIGKILL);
  if (!wanted->ended && wanted->pid == 0) std::erase(commands_, wanted);
  return wanted->exit_code;
}

void AlertCommands::LaunchWanted(const SignalInbox& signals) {
  uint64_t count = 0;
  if (read(wake_fd_, &count, sizeof count) < 0) {
    // The counter was zero already.
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  for (const std::shared_ptr<Command>& command : commands_) {
    if (command->pid != 0) continue;
    const Launched launched = Launch({.path = "/bin/sh",
                                      .argv = {"sh", "-c", command->text},
                                      .environment = FullEnvironment(command->environment),
                                      .aside = true},
                                     signals);
    if (launched.error != 0) {
      spdlog::warn("alerts: {}", DescribeExecError("/bin/sh", launched.error));
      command->ended = true;
    } else {
      command->pid = launched.pid;
    }
  }
  std::erase_if(commands_, [](const auto& command) { return command->ended; });
  changed_.notify_all();
}

bool AlertCommands::Reaped(pid_t pid, int wait_status) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(commands_.begin(), commands_.end(),
                                  [pid](const auto& command) { return command->pid == pid; });
  if (found == commands_.end()) return false;
  (*found)->ended = true;
  (*found)->exit_code = ExitCodeOfStatus(wait_status);
  commands_.erase(found);
  changed_.notify_all();
  return true;
}

std::vector<pid_t> AlertCommands::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> all;
  for (const std::shared_ptr<Command>& command : commands_) {
    if (command->pid > 0) all.push_back(command->pid);
  }
  return all;
}

void AlertCommands::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

}  // namespace gordian::cli
