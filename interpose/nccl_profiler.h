// NCCL's profiler plugin in the shim: the calls of an NCCL that no symbol leads to, because it is
// linked statically. Opt-in: NCCL loads whom NCCL_PROFILER_PLUGIN names (`gordian run
// --nccl-profiler` names the shim) and calls the tables that nccl_profiler_entries.cc exports.
//
// What comes in becomes the records of the calls that NCCL was in, as if they had come through the
// symbols: interpose/describe_nccl.h. What each version tells:
//
//   5, 6  the group (kGroupApi) from its first operation to its end, each collective that is called
//         (kCollApi) with its stream, each send and receive once NCCL launches it (kP2p knows the
//         peer, kP2pApi the stream), and that a kernel was launched (kKernelLaunch). A call outside
//         of a group is a group of NCCL's own around it: the call is taken to last as long.
//   4     collectives, sends and receives when they are launched (kColl, kP2p), and not on which
//         stream: what they wait behind is not known, nor whether they are done.
//
// No version tells: communicators while they are made (the plugin hears of one that is there),
// their end as a call, the operator of a reduction, where in the program a call was made, whether a
// call failed. GPU evidence does not come from NCCL's events but from the same markers as otherwise
// (the driver is never linked statically), recorded only where the kernel was seen to be launched
// by this thread; kKernelCh is not asked for, since it makes NCCL do more work.
//
// Never twice: a call that came through a symbol is still inside it when its events come (depth),
// and is left alone; version 4, whose events come from other threads, is not listened to in a
// process that calls NCCL through symbols at all.
//
// Threads: any. Of versions 5 and 6, only events between kGroupApi's start and end on one thread
// are taken, which is the application's own: others come from NCCL's threads, and from host
// functions in streams, where no call of CUDA is allowed. Nothing blocks or fails; NCCL is always
// told success.
#ifndef GORDIAN_INTERPOSE_NCCL_PROFILER_H_
#define GORDIAN_INTERPOSE_NCCL_PROFILER_H_

#include <stdint.h>

#include "interpose/describe_nccl.h"
#include "interpose/nccl_profiler_abi.h"
#include "interpose/shim_state.h"

namespace gordian::interpose::profiler {

// A communicator that NCCL told of.
struct Comm {
  std::atomic<uint32_t> in_use;
  int version;
  uint64_t id;
  int nodes;
  int ranks;
  int rank;
  char name[16];
  int device;
  Process* process;              // whose tables `comm` is in
  std::atomic<CommState*> comm;  // null until something of it is recorded
  // The user's plugin (nccl_profiler_chain.h). NCCL has one mask; the user's plugin has
  // `user_mask`.
  void* user_context;
  int user_mask;
  int* nccl_mask;
};

// An event that NCCL holds a handle of: the address of this, with how often it has been given out
// in the bits that its alignment leaves free. NCCL names call events as parents long after it has
// stopped them.
struct alignas(64) Event {
  std::atomic<uint32_t> in_use;
  uint32_t times;  // given out
  uint32_t type;
  bool taken;  // something is recorded at its end
  Comm* comm;
  void* stream;  // of a kP2pApi
  void* user;    // handle of the user's plugin
};

// What of ours NCCL is to tell.
constexpr int OurMask(int version) {
  return version == 4 ? kColl | kP2p : kGroupApi | kCollApi | kP2pApi | kKernelLaunch | kP2p;
}

void OnInit(Comm& comm);
void OnStart(Event& event, const Description& description);
void OnState(Event& event, int state);
void OnStop(Event& event);
void OnFinalize(Comm& comm);

// Whether the calling thread is inside a call of NCCL that the interface has told of.
bool IsInsideNccl();

}  // namespace gordian::interpose::profiler

#endif  // GORDIAN_INTERPOSE_NCCL_PROFILER_H_
