// Limits on this process under which its observing part could not live. gRPC ends the process when
// it gets no thread or no memory, and with this process a launcher loses the job's exit status: so
// what will be needed is tried first, and a job that cannot be observed runs on without us.
#ifndef GORDIAN_CLI_OWN_LIMITS_H_
#define GORDIAN_CLI_OWN_LIMITS_H_

#include "common/status.h"

namespace gordian::cli {

// Where the address space is limited (ulimit -v), makes this process use little of it: one arena
// of the allocator and small stacks, 45 MiB instead of 1 GiB. Call it while there is one thread.
void SpareAddressSpace();

// Can this process have the threads and the address space that observing takes? Allocates nothing
// that stays. An error names the limit and what to try.
Status RoomToObserve();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_OWN_LIMITS_H_
