// The shim's part of recovering a stuck job (`gordian run --on-verdict recover`, docs/recovery.md).
//
// GORDIAN_RECOVERY=1 arms a process, where the runtime's library, CUDA and NCCL have what it takes.
// Each communicator then has a spare in the runtime, made and agreed upon as in collectives.h, that
// carries nothing. NCCL carries out all operations; behind each of them the shim puts an event and a
// gate on its stream, cuStreamWaitValue64 for a word of pinned memory that is open unless a recovery
// closes it, and remembers its arguments until the event is done.
//
// A thread of its own takes orders from a file (proto/ring/recovery.h). A recovery closes the gates
// of what is stuck, revokes the communicators from helper threads, so that NCCL's kernels leave, and
// submits their operations to the runtime. A gate opens when its operation is done, in the order of
// its stream, so that nothing behind a gate ever sees what an ended kernel has left. An operation
// that begins before the stream has come to it writes its output elsewhere until then. One in place
// gets its input from its shadow (shadows.h), or, if its kernel has not begun, reads a copy.
// From then on the runtime carries out what is called on these communicators.
//
// Threads: any. The calls of a program take a try-lock, and allocate nothing but events that stay,
// and room for the groups of a thread at its first.
#ifndef GORDIAN_INTERPOSE_ROUTE_RECOVERY_H_
#define GORDIAN_INTERPOSE_ROUTE_RECOVERY_H_

#include <nccl.h>
#include <stdint.h>

#include <atomic>

#include "interpose/describe/describe_nccl.h"
#include "interpose/route/routed_comm.h"
#include "interpose/route/shadows.h"

namespace gordian::interpose {

extern std::atomic<uint32_t> g_armed;
inline bool IsArmed() { return g_armed.load(std::memory_order_acquire) != 0; }

// The runtime has carried out something in this process.
extern std::atomic<uint32_t> g_recovered;

// GORDIAN_RECOVERY, as LookForRecovery has found it.
extern std::atomic<uint32_t> g_wants_recovery;
inline bool WantsRecovery() { return g_wants_recovery.load(std::memory_order_acquire) != 0; }
void LookForRecovery();
// Once a communicator was made: the driver's library is there no earlier. The first call arms; the
// others wait for it. False: something is missing, and a line has said what.
bool Arm();
// A spare was made for it.
void ArmComm(RoutedComm& routed, int ranks, int rank, int device);

// An operation on a communicator that has a spare, around NCCL's own call.
struct ArmedCall {
  RoutedComm* routed;  // null: nothing to do at its end
  bool entered;
  Shadow shadow;
};
enum class ArmedBy {
  kNccl,      // the caller calls NCCL, and then EndArmed
  kRecovery,  // it is placed among what is recovered: the call is over
  kRuntime,   // the caller gives it to the runtime
};
ArmedBy BeginArmed(RoutedComm& routed, ring::CallId call, const OperationArguments& arguments,
                   OperationRoute* route, ArmedCall* armed);
void EndArmed(const ArmedCall& armed, ring::CallId call, const OperationArguments& arguments,
              const OperationRoute* route, ncclResult_t result);
void NoteGroupStart();
// Before NCCL's own call that ends a group.
void MakeShadowsOfGroup();
// A group has ended, the outermost one or another.
void EndArmedGroup(ncclResult_t result);

// The program registers memory with it: peers may write there, so it is not recovered any more.
void NoteRegistered(RoutedComm& routed);

// The program aborts or revokes it: its gates open, whatever comes of the data, and a recovery
// submits nothing more to the runtime's communicator.
void EndByProgram(RoutedComm& routed);

// Before NCCL ends the communicator: waits until no helper thread is in it, which a program that
// aborts in the middle of a recovery has to.
void LeaveRecovery(RoutedComm& routed, bool aborts);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_RECOVERY_H_
