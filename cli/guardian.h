// A small process that outlives `gordian run` if that is killed: it saves the rings of the job's
// processes as these end, removes the ring folder after the last of them, and leaves. It never
// outlives the job, touches none of its processes, and holds no file of the caller open.
//
// How it notices: it holds the read end of a pipe whose only write end is in `run`.
#ifndef GORDIAN_CLI_GUARDIAN_H_
#define GORDIAN_CLI_GUARDIAN_H_

#include <sys/types.h>

#include <string>

#include "cli/process_tree.h"
#include "common/status.h"

namespace gordian::cli {

// One owner, one thread.
class Guardian {
 public:
  Guardian() = default;
  ~Guardian() { Leave(); }
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // Forks. Must be called while this process has one thread. `session_dir` may be empty: no copies.
  Status Start(const std::string& ring_folder, const std::string& session_dir);

  // The job's first process: the guardian stays while it lives, rings or not, since it may still
  // start processes that make some.
  void SetJob(const ProcessKey& job);

  // `run` ends in order and has removed the folder itself: the guardian exits and is reaped.
  void Leave();

  pid_t pid() const { return pid_; }  // 0: none

 private:
  void Send(const std::string& line);

  pid_t pid_ = 0;
  int pipe_ = -1;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_GUARDIAN_H_
