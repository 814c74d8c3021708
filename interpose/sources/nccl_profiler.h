// NCCL's profiler plugin in the shim: records the calls of a statically linked NCCL, which bypass
// the intercepted symbols. Opt-in: NCCL loads the plugin that NCCL_PROFILER_PLUGIN names (`gordian
// run --nccl-profiler` names the shim) and calls the tables that nccl_profiler_entries.cc exports.
//
// The shim turns NCCL's events into the records of the calls that NCCL was in, as if they had come
// through the symbols: interpose/describe/describe_nccl.h. Each version reports:
//
//   5-7   the group (kGroupApi) from its first operation to its end, each called collective
//         (kCollApi) with its stream, each send and receive once NCCL launches it (kP2p knows the
//         peer, kP2pApi the stream), and a kernel's launch (kKernelLaunch). Around a call outside
//         of a group NCCL makes a group of its own: the call is taken to last as long.
//   4     collectives, sends and receives at their launch (kColl, kP2p), without their streams: so
//         neither their predecessors nor their ends are known.
//
// No version reports: communicators during their creation (the plugin hears of existing ones),
// their end as a call, the operator of a reduction, where in the program a call was made, whether a
// call failed. GPU evidence comes not from NCCL's events but from the usual markers (the driver is
// never linked statically), recorded only where this thread was seen to launch the kernel; the shim
// does not ask for kKernelCh, which makes NCCL do more work.
//
// Never twice: a call that came through a symbol is still inside it when its events come (depth),
// and the shim ignores those; it ignores version 4, whose events come from other threads, in any
// process that calls NCCL through symbols.
//
// Threads: any. From version 5 on the shim takes only events between kGroupApi's start and end on
// one thread, the application's own: others come from NCCL's threads, and from host functions in
// streams, where CUDA calls are forbidden. Nothing blocks or fails; NCCL always gets success.
#ifndef GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_H_
#define GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_H_

#include <stdint.h>

#include "interpose/describe/describe_nccl.h"
#include "interpose/sources/nccl_profiler_abi.h"
#include "interpose/state/shim_state.h"

namespace gordian::interpose::profiler {

// A communicator that NCCL reported.
struct Comm {
  std::atomic<uint32_t> in_use;
  int version;
  uint64_t id;
  int nodes;
  int ranks;
  int rank;
  char name[16];
  int device;
  Process* process;              // the process whose tables hold `comm`
  std::atomic<CommState*> comm;  // null until something of it is recorded
  // The user's plugin (nccl_profiler_chain.h). NCCL has one mask; the user's plugin has
  // `user_mask`.
  void* user_context;
  int user_mask;
  int* nccl_mask;
};

// An event whose handle NCCL holds: this address, with the number of its use in the bits that the
// alignment leaves free. NCCL names call events as parents long after it has stopped them.
struct alignas(64) Event {
  std::atomic<uint32_t> in_use;
  uint32_t times;  // uses so far
  uint32_t type;
  bool taken;  // its end makes a record
  Comm* comm;
  void* stream;  // of a kP2pApi event
  void* user;    // handle of the user's plugin
};

// The events that the shim asks NCCL for.
constexpr int OurMask(int version) {
  return version == 4 ? kColl | kP2p : kGroupApi | kCollApi | kP2pApi | kKernelLaunch | kP2p;
}

void OnInit(Comm& comm);
void OnStart(Event& event, const Description& description);
void OnState(Event& event, int state);
void OnStop(Event& event);
void OnFinalize(Comm& comm);

// True if the calling thread is inside a call of NCCL that the interface has reported.
bool IsInsideNccl();

}  // namespace gordian::interpose::profiler

#endif  // GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_H_
