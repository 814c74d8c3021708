// The driver's calls, told by CUPTI: an opt-in source (`gordian run --cupti`) for what no symbol
// leads to. That is a CUDA runtime that is linked statically and comes by the driver in its own
// ways, and launches of libraries through pointers that they looked up for themselves.
//
// CUDA_INJECTION64_PATH names the shim: the driver opens it when it is initialised and calls
// InitializeInjection (CUDA driver; NVIDIA's CUPTI samples, callback_injection). That opens
// libcupti, subscribes to the callbacks of the driver's functions of proto/ring/cupti_calls.def,
// and each becomes the records that the row of that function makes when it is called through its
// symbol.
//
// No call counts twice: what the thread calls inside a call that came through a symbol, or inside
// NCCL, belongs to that one, and what NCCL's own threads call is not the job's. CUPTI takes one
// subscriber: when it has one already, this source yields and says so in the ring's header
// (ring::CuptiState).
//
// CUPTI calls back on the thread that makes the call. What is done there blocks and allocates no
// more than a wrapper does; opening the library and subscribing happen once, in the driver's
// initialisation.
#ifndef GORDIAN_INTERPOSE_CUPTI_SOURCE_H_
#define GORDIAN_INTERPOSE_CUPTI_SOURCE_H_

#include <stdint.h>

#include "interpose/shim_state.h"

namespace gordian::interpose::cupti {

// Takes ring::CuptiState, from the environment and from what has happened since, over into the
// header of a process that was attached, or is being attached. The source and the attaching thread
// may both come here, in any order: a later state is never replaced by an earlier one.
void TellState(Process& process);

}  // namespace gordian::interpose::cupti

// By the driver. 1: CUDA goes on, whatever came of it.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void);

#endif  // GORDIAN_INTERPOSE_CUPTI_SOURCE_H_
