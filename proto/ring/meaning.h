// What a call means to the wait model, whatever it is named: the rows of
// proto/ring/hooked_calls.def give one to each call, and the analyzer reasons in them.
#ifndef GORDIAN_PROTO_RING_MEANING_H_
#define GORDIAN_PROTO_RING_MEANING_H_

#include <stdint.h>

namespace gordian::ring {

enum class Meaning : uint8_t {
  kOther = 0,
  // Operations. Order matters: kBarrier..kScatter are collectives.
  kBarrier,  // of torch.distributed alone
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
  kPutSignal,
  kSignal,
  kWaitSignal,  // RMA. kPoint of kWaitSignal: what else it waits for
  kGroupStart,
  kGroupEnd,
  // Those that make communicators. kPoint of kCommGrow: who came by the parent knows the
  // communicator as `uid`.
  kCommInit,
  kCommInitAll,
  kCommSplit,
  kCommShrink,
  kCommGrow,
  kCommFinalize,
  kCommDestroy,
  kCommAbort,
  kCommRevoke,
  kCommWindowRegister,
  kCommOther,
  kStreamCreate,
  kStreamDestroy,
  kStreamWork,  // WorkKind tells
  kGraphEndCapture,
  kGraphDestroy,
  kGraphClone,
  kGraphNest,
  kGraphInstantiate,
  kGraphExecDestroy,
  kHostWait,  // WaitKind tells
  kText,      // a piece of a text that other records refer to
  kPoll,      // cudaEventQuery, cudaStreamQuery: only ever in a thread's state
};

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_MEANING_H_
