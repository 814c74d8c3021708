// Work that NCCL has accepted and finishes later: operations of non-blocking communicators, and
// communicators that are made inside a group.
#ifndef GORDIAN_INTERPOSE_DESCRIBE_NCCL_DEFERRED_H_
#define GORDIAN_INTERPOSE_DESCRIBE_NCCL_DEFERRED_H_

#include <nccl.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// NCCL returned "in progress" for the call on `stream`: a marker recorded now might precede the
// kernel.
void Defer(ThreadContext& thread, CommState& comm, StreamState& stream);
// NCCL has launched everything of this communicator, or it was aborted: marks its streams, except
// after an abort and those that wait for another communicator too.
void FlushDeferred(ThreadContext& thread, CommState& comm);

// Asks NCCL for what a child communicator turned out to be.
void AskCommSize(Process& process, CommState& comm);

// The outermost ncclGroupEnd of a group that made communicators returned.
void FinishGroupInits(ThreadContext& thread, ncclResult_t result);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DESCRIBE_NCCL_DEFERRED_H_
