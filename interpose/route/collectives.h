// A job's NCCL collectives on gordian's preemptive runtime (`gordian run --collectives=preemptive`,
// docs/runtime.md), with NCCL's semantics towards streams.
//
// GORDIAN_COLLECTIVES_LIBRARY names the library: `gordian run` names the one for the host's
// processors under the emulator, and the one for GPUs without it.
//
// GORDIAN_COLLECTIVES_NAMES, if it is not empty, names the communicators that the runtime gets.
//
// The members agree on a communicator's route when they make it (grtAgree). Per call it depends on
// the kind and the operator alone, which NCCL requires to be equal on all ranks, and, with the
// library for the host's processors, on the stream not being captured. The shim counts by reason
// what stays with NCCL. It reports all other work on streams to the runtime, so that the runtime
// begins an operation early only where no other work stands before it.
//
// The library is opened at the first communicator; without it (GORDIAN_COLLECTIVES_LIBRARY unset,
// or it cannot be opened) all stays with NCCL. It must be opened by all processes of a job or by
// none: a process whose library cannot be opened does not vote, and so the answer is no for its
// communicators.
//
// Threads: any; no locks but the runtime's own. Calls of the runtime enqueue and return, except
// that agreeing waits for the other members, which have all come back from the same call of NCCL.
#ifndef GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_H_
#define GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>

#include <atomic>

#include "interpose/describe/describe_nccl.h"
#include "interpose/route/recovery.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"

namespace gordian::interpose {

// 0: not looked yet, 1: off, 2: on.
extern std::atomic<uint32_t> g_collectives;
bool LookForCollectives();
inline bool RoutesCollectives() {
  const uint32_t state = g_collectives.load(std::memory_order_acquire);
  return __builtin_expect(state != 1, 0) && (state == 2 || LookForCollectives());
}

// True: the runtime has the call, *result is its result, and route->elsewhere says so. False: it is
// NCCL's. `route`: null if no record names the operation.
bool RouteOperation(ring::CallId call, const OperationArguments& arguments, OperationRoute* route,
                    ncclResult_t* result);
// The same in a process that is armed for recovery (recovery.h), around NCCL's own call, which
// EndArmed follows.
bool BeginArmedOperation(ring::CallId call, const OperationArguments& arguments,
                         OperationRoute* route, ArmedCall* armed, ncclResult_t* result);
// The runtime has it: NCCL must not be asked about it.
bool IsRecovered(ncclComm_t comm);
// The watcher calls this for a round: writes into the header which operations the runtime carries
// out before their turn. Never waits for another thread.
void TellEarly(ring::Header& header);
void RouteGroupStart();
// Before the real call: of the runtime's part. After it: communicators that the group has made.
ncclResult_t RouteGroupEnd();
void RouteGroupEnded(ncclResult_t real);

// After the real call has succeeded; within a group, after the group's end.
void RouteInit(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
               const ncclConfig_t* config);
void RouteInitAll(const ncclComm_t* comms, int count, const int* devices);
void RouteSplit(ncclComm_t parent, int color, ncclComm_t* made, const ncclConfig_t* config);
void RouteShrink(ncclComm_t parent, ncclComm_t* made, const ncclConfig_t* config);
// Before the real call.
void RouteFinalize(ncclComm_t comm);
void RouteDestroy(ncclComm_t comm);
void RouteAbort(ncclComm_t comm);
// ncclCommRevoke, and ncclCommShrink with NCCL_SHRINK_ABORT: what is unfinished ends, and the
// communicator stays for what it may still be asked: to be shrunk and destroyed.
void RouteRevoke(ncclComm_t comm);
// Memory that the program registers with NCCL is registered with the runtime too, where that can
// use it. After the real call has succeeded, with NCCL's handle; one that NCCL gives out more than
// once counts as often. A window's is valid after the group's end.
void RouteRegister(ncclComm_t comm, void* memory, size_t bytes, const void* handle);
void RouteWindow(ncclComm_t comm, void* memory, size_t bytes, const ncclWindow_t* window);
// Before the real call.
void RouteDeregister(ncclComm_t comm, const void* handle);
// After it.
void RouteAsyncError(ncclComm_t comm, ncclResult_t* error);

// Work of others on streams, before the real call. A null stream is the legacy default one.
void NoteForeignWork(void* stream);
void NoteStreamGone(void* stream);
void NoteEventGone(const void* event);
// The event is another process's, too.
void NoteEventShared(const void* event);
// Before the real call and after it, which has ended `well`.
void NoteRecording(const void* event, void* stream);
void NoteRecorded(const void* event, void* stream, bool well);
void NoteAwaiting(const void* event, void* stream);
void NoteAwaited(const void* event, void* stream, bool well);
// The program makes (or has made) a call that may record any event.
void NoteUnseenRecords(bool begins);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_H_
