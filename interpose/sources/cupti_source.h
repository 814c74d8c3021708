// Records the driver's calls through CUPTI: an opt-in source (`gordian run --cupti`) for calls that
// no symbol leads to: of a CUDA that is opened with RTLD_DEEPBIND or dlmopen, and launches of
// libraries through pointers that no look-up gave. A statically linked CUDA runtime looks the
// driver's functions up, and needs no such source.
//
// CUDA_INJECTION64_PATH names the shim: the driver opens it at initialisation and calls
// InitializeInjection (CUDA driver; NVIDIA's CUPTI samples, callback_injection). That opens
// libcupti and subscribes to the callbacks of the driver's functions of proto/ring/cupti_calls.def;
// each callback makes the records that the function's row makes when it is called through its
// symbol.
//
// No call counts twice: a thread's calls inside a call that came through a symbol, or inside NCCL,
// belong to that one, and calls of NCCL's own threads are not the job's. CUPTI takes one
// subscriber: if it has one already, this source yields and says so in the ring's header
// (ring::CuptiState).
//
// CUPTI calls back on the calling thread. The callback blocks and allocates no more than a wrapper
// does; opening the library and subscribing happen once, in the driver's initialisation.
#ifndef GORDIAN_INTERPOSE_SOURCES_CUPTI_SOURCE_H_
#define GORDIAN_INTERPOSE_SOURCES_CUPTI_SOURCE_H_

#include <stdint.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose::cupti {

// Copies ring::CuptiState, from the environment and later events, into the header of a process that
// is attached or attaching. The source and the attaching thread may both call it, in any order: an
// earlier state never replaces a later one.
void TellState(Process& process);

}  // namespace gordian::interpose::cupti

// The driver calls it. Returns 1, so that CUDA goes on in any case.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void);

#endif  // GORDIAN_INTERPOSE_SOURCES_CUPTI_SOURCE_H_
