// A small process that outlives a killed `gordian run`. It copies the rings of the job's processes
// as these end, removes the ring folder after the last one, and exits. It never outlives the job,
// touches none of the job's processes, and keeps none of the caller's files open.
//
// It notices the death of `run` by a pipe: it holds the read end, and `run` the only write end.
#ifndef GORDIAN_CLI_RUN_GUARDIAN_H_
#define GORDIAN_CLI_RUN_GUARDIAN_H_

#include <sys/types.h>

#include <string>

#include "cli/job/process_tree.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

// One owner, one thread.
class Guardian {
 public:
  Guardian() = default;
  ~Guardian() { Leave(); }
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // Forks; the caller must have one thread. Without a session (null) the guardian makes no copies.
  // Errors: no pipe, no process.
  Status Start(const OwnedFolder& rings, const OwnedFolder* session);

  // Names the job's first process. The guardian stays while that lives, even without rings: it may
  // still start processes that make some.
  void SetJob(const ProcessKey& job);

  // Makes the guardian exit, and reaps it. Call it after `run` itself has removed the folder.
  void Leave();

  pid_t pid() const { return pid_; }  // 0: none

 private:
  void Send(const std::string& line);

  pid_t pid_ = 0;
  int pipe_ = -1;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_GUARDIAN_H_
