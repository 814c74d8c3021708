// Tests whether this process's limits allow it to observe a job. gRPC aborts when it gets no thread
// or no memory, and the launcher would lose the job's exit status; so gordian tries first, and runs
// a job unobserved if it must.
#ifndef GORDIAN_CLI_JOB_OWN_LIMITS_H_
#define GORDIAN_CLI_JOB_OWN_LIMITS_H_

#include <functional>

#include "common/status.h"

namespace gordian::cli {

// Runs `body` on a stack of its own where that of the process is too small for gordian (ulimit -s),
// and gives threads one, too. Call it first of all. The limit itself stays, for the job's sake.
int WithEnoughStack(const std::function<int()>& body);

// Under a limited address space (ulimit -v), gives this process's threads small stacks. Call it
// while there is one thread.
void SpareAddressSpace();

// Tries out the threads, descriptors and address space that observing takes, and frees them again. An error
// names the limit and how to raise it.
Status RoomToObserve();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_OWN_LIMITS_H_
