// Turns NCCL calls into records and state. Each call is Begin..., the real call, End...; the two
// halves share a note on the caller's stack. All of it runs on the calling thread, for outermost
// calls only, and keeps errno.
#ifndef GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_NCCL_H_
#define GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_NCCL_H_

#include <nccl.h>

#include "interpose/entry/nccl_newer.h"
#include "interpose/state/shim_state.h"

namespace gordian::interpose {

size_t ElementSize(ncclDataType_t type);  // in bytes

// The arguments of a collective or point-to-point call. Members that a call lacks keep their
// defaults.
struct OperationArguments {
  const void* send = nullptr;
  const void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  int reduce_op = -1;
  int root_or_peer = -1;
  const void* comm = nullptr;
  void* stream = nullptr;
  bool no_stream = false;  // unknown; 0 would be the default stream
  // RMA: the signals that the call waits for or sends, and their number.
  const GordianNcclWaitSignalDesc* signals = nullptr;
  int signal_count = 0;
};

// An operation on its way to NCCL or to the preemptive runtime (interpose/route/collectives.h).
struct OperationRoute {
  ring::EarlyOperation name;  // how its records name it; RouteOperation gives it to the runtime
  bool elsewhere;             // set by the route: the runtime has taken it
};

struct OperationNote {
  CommState* comm;
  StreamState* stream;
  std::atomic<uint64_t>* counter;  // the sequence number's, null when the call takes none
  PairNumbers* pair;               // for a send or receive
  uint64_t sequence;
  uint64_t capture;      // the capture it goes into; 0: none, or unknown
  uint32_t graph_front;  // marker before it in the capture; 0: none
  uint64_t order;        // of kBegin
  uint64_t count;
  int32_t root_or_peer;
  uint8_t datatype;
  uint8_t reduce_op;
  uint8_t flags;
  OperationRoute route;
  // RMA, as OperationArguments. A call that sends names `sent`.
  int signal_count;
  const GordianNcclWaitSignalDesc* signals;
  ring::NumberSlot* first_line;  // that counts the first of the signals; null: none does
  GordianNcclWaitSignalDesc sent;
};
void BeginOperation(ThreadContext& thread, CallId call, uint64_t site,
                    const OperationArguments& arguments, OperationNote* note);
void EndOperation(ThreadContext& thread, CallId call, uint64_t site, const OperationNote& note,
                  ncclResult_t result);

void EndGroupStart(ThreadContext& thread, ncclResult_t result);
void BeginGroupEnd(ThreadContext& thread, CallId call, uint64_t site);
void EndGroupEnd(ThreadContext& thread, CallId call, uint64_t site, ncclResult_t result);
void EndGroupSimulateEnd(ThreadContext& thread);

// One communicator that a call is to make.
struct InitArguments {
  int nranks = 0;
  int rank = -1;
  int device = -1;
  uint64_t uid = 0;
  CommState* parent = nullptr;
  int color = 0;
  const ncclConfig_t* config = nullptr;
};
// `first` of several that one call makes (ncclCommInitAll). Returns null if no slot is left.
CommState* BeginInit(ThreadContext& thread, CallId call, uint64_t site, const InitArguments& init,
                     bool first);
// Other members know the communicator in the making as `uid`.
void NoteOtherUid(ThreadContext& thread, CallId call, uint64_t site, const CommState* comm,
                  uint64_t uid);
// `made`: where the call put the new handle. `last` as `first` above.
void EndInit(ThreadContext& thread, CallId call, uint64_t site, CommState* comm, ncclComm_t* made,
             ncclResult_t result, bool last);

// The name that the program has given the communicator; null: none.
const char* NameGiven(const ncclConfig_t* config);
uint64_t HashIds(const ncclUniqueId* ids, int count);
// For the communicators of one ncclCommInitAll, in which no other process takes part.
uint64_t LocalUid(Process& process);
// For the child that this call on `parent` makes; the same at every member.
uint64_t ChildUid(CommState* parent, CallId call);

// `before`: the state to restore if the call fails; unchanged if it returns null.
CommState* BeginCommCall(ThreadContext& thread, CallId call, uint64_t site, ncclComm_t comm,
                         ring::CommState* before);
void EndCommCall(ThreadContext& thread, CallId call, uint64_t site, CommState* comm,
                 ncclComm_t handle, ncclResult_t result, ring::CommState before);
void EndGetAsyncError(ThreadContext& thread, CallId call, ncclComm_t comm, ncclResult_t result,
                      const ncclResult_t* state);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_NCCL_H_
