// Calls the user's own profiler plugin behind the shim's: NCCL loads only one, so the user's, which
// NCCL_PROFILER_PLUGIN named, would otherwise be lost. GORDIAN_NCCL_PROFILER_PLUGIN names it.
//
// The shim calls it as NCCL would, with its own contexts and handles, and only for events that NCCL
// would have made for its mask (which implies the events around those it asks for). It must offer
// the version that NCCL asked the shim for: the shim translates nothing. Its mask may change at any
// time and takes effect at the next event.
#ifndef GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_CHAIN_H_
#define GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_CHAIN_H_

#include "interpose/sources/nccl_profiler.h"

namespace gordian::interpose::profiler {

// Opens it once. All these do nothing without a plugin, or if it lacks the version.
void ChainInit(Comm& comm, void* log);
void ChainStart(Comm& comm, void** handle, const Description* description);
void ChainStop(int version, void* handle);
void ChainState(int version, void* handle, int state, void* arguments);
void ChainFinalize(const Comm& comm);

// True if the user's plugin wants events of the type.
bool ChainWants(Comm& comm, uint32_t type);

// The user's plugin's handle behind NCCL's, which is the shim's or the plugin's own; null behind
// one of the shim's that another event has taken since.
void* UserHandle(void* handle);
// The shim's event, or null; null too if another event has taken it since.
Event* OwnEvent(void* handle);

}  // namespace gordian::interpose::profiler

#endif  // GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_CHAIN_H_
