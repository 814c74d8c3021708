// Runs the commands of --alert exec: for the threads that send alerts. The main thread starts and
// reaps them, since it reaps all children.
#ifndef GORDIAN_CLI_INCIDENTS_ALERT_COMMANDS_H_
#define GORDIAN_CLI_INCIDENTS_ALERT_COMMANDS_H_

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analyzer/incidents/alert_sender.h"
#include "cli/job/launcher.h"

namespace gordian::cli {

// Thread-safe.
class AlertCommands {
 public:
  AlertCommands();
  ~AlertCommands();
  AlertCommands(const AlertCommands&) = delete;
  AlertCommands& operator=(const AlertCommands&) = delete;

  // Call from other threads than the main one. Waits until the command has ended, and kills it after
  // a minute. Returns its exit code; -1: it could not be run, was killed, or Stop() came.
  int Run(const std::string& command, const incidents::AlertEnvironment& environment);

  // The main thread's. The descriptor is readable when there is something to launch.
  int wake_fd() const { return wake_fd_; }
  void LaunchWanted(const SignalInbox& signals);
  // True if the process was one of these.
  bool Reaped(pid_t pid, int wait_status);
  std::vector<pid_t> pids() const;

  // Nobody waits any longer, and nothing is launched any more.
  void Stop();

 private:
  struct Command {
    std::string text;
    incidents::AlertEnvironment environment;
    pid_t pid = 0;  // 0: not launched yet
    bool ended = false;
    int exit_code = -1;
  };

  const int wake_fd_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Command>> commands_;
  bool stopping_ = false;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_INCIDENTS_ALERT_COMMANDS_H_
