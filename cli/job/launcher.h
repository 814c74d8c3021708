// Starts the job as if gordian were not there, and forwards the signals that gordian receives.
#ifndef GORDIAN_CLI_JOB_LAUNCHER_H_
#define GORDIAN_CLI_JOB_LAUNCHER_H_

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::cli {

// Receives signals as data, so that they do not kill `run`, and keeps the mask and dispositions
// that the job must find. Construct one per process, before any thread starts, so that all threads
// inherit the mask.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  struct Received {
    int number = 0;
    // The terminal sent it, so the job, in the same group, has it too; except SIGHUP in a session
    // that gordian leads.
    bool from_kernel = false;
  };
  std::optional<Received> Next();  // never blocks
  int fd() const { return fd_; }   // readable when Next has something

  const sigset_t& original_mask() const { return original_mask_; }
  const sigset_t& reset_to_default() const { return reset_to_default_; }

 private:
  int fd_ = -1;
  sigset_t original_mask_;
  sigset_t reset_to_default_;  // ignored by gordian, but not by its parent
};

// The descriptors that were open at construction, which the job inherits. Later ones are gordian's,
// even those that libraries open without O_CLOEXEC.
class InheritedDescriptors {
 public:
  InheritedDescriptors();
  void KeepOthersFromChildren() const;

 private:
  std::vector<int> inherited_;
};

// A program as execvp would find it.
struct Program {
  std::string path;
  int error = 0;  // errno when the program was not found: ENOENT, EACCES ...
};
Program FindProgram(const std::string& name, std::string_view search_path);

struct LaunchRequest {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value
  // Redirects standard output to standard error and empties standard input: for gordian's own
  // commands.
  bool aside = false;
};

struct Launched {
  pid_t pid = 0;
  int error = 0;  // errno of a failed exec; 0: runs
};

// Starts a process in the caller's group and session. Safe while other threads run. A script
// without an interpreter line is given to /bin/sh, as execvp does.
Launched Launch(const LaunchRequest& request, const SignalInbox& signals);

// 126 or 127, as shells and env(1) have it.
int ExitCodeOfExecError(int error);
// One line: "cannot run train: No such file or directory".
std::string DescribeExecError(const std::string& name, int error);

// The exit code that a shell would give for a wait status.
int ExitCodeOfStatus(int wait_status);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_LAUNCHER_H_
