// The user's own profiler plugin behind ours: NCCL loads one, so that whoever set
// NCCL_PROFILER_PLUGIN would go without. GORDIAN_NCCL_PROFILER_PLUGIN names it.
//
// It is called as NCCL would call it, with its own contexts and handles, and for those events only
// that NCCL would have made for its mask (which implies the events around what it asks for). It
// must offer the version that NCCL asked us for: nothing is translated. Its mask may change at any
// time and is taken up at the next event.
#ifndef GORDIAN_INTERPOSE_NCCL_PROFILER_CHAIN_H_
#define GORDIAN_INTERPOSE_NCCL_PROFILER_CHAIN_H_

#include "interpose/nccl_profiler.h"

namespace gordian::interpose::profiler {

// Opens it once. All do nothing where there is none, or it lacks the version.
void ChainInit(Comm& comm, void* log);
void ChainStart(Comm& comm, void** handle, const Description* description);
void ChainStop(int version, void* handle);
void ChainState(int version, void* handle, int state, void* arguments);
void ChainFinalize(const Comm& comm);

// Whether the user's plugin is to hear of events of the type.
bool ChainWants(Comm& comm, uint32_t type);

// Handle of the user's plugin behind a handle that NCCL has, which is ours or its own; null behind
// one of ours that has been given to another event since.
void* UserHandle(void* handle);
// Ours, or null; null too when it has been given to another event since.
Event* OwnEvent(void* handle);

}  // namespace gordian::interpose::profiler

#endif  // GORDIAN_INTERPOSE_NCCL_PROFILER_CHAIN_H_
