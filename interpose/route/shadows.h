// Copies of what operations in place write over, so that a recovery can give them their inputs
// again (recovery.h). The copy stands on the operation's stream right in front of it, and lies in a
// pool of device memory that is there from the first communicator of the device on.
//
// GORDIAN_RECOVERY_POOL_MB is each device's pool, in MiB. Where it has no room an operation runs
// without a shadow. A shadow ends with its operation; its memory is used again by a later one.
//
// Threads: any. No call waits for a device or allocates; MakeShadowPool alone allocates.
#ifndef GORDIAN_INTERPOSE_ROUTE_SHADOWS_H_
#define GORDIAN_INTERPOSE_ROUTE_SHADOWS_H_

#include <stdint.h>

namespace gordian::interpose {

struct Shadow {
  void* memory;  // device memory; null: there is none
  uint64_t at;   // in the pool
};

// Before all others, once. `over(holder)`: the operation is done and no recovery needs its shadow;
// it may be asked by any thread that makes a shadow. False: CUDA lacks a function.
bool OpenShadows(bool (*over)(uint64_t holder));

// A communicator on this device is armed.
void MakeShadowPool(int device);

// Has the stream, which must not be captured, copy these bytes.
Shadow MakeShadow(int device, const void* from, uint64_t bytes, void* stream);

// Names the operation that the shadow is for, once it stands on its stream. A shadow without one
// keeps its memory for ever, since the pool cannot tell when the copy is over.
void HoldShadow(int device, const Shadow& shadow, uint64_t holder);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_SHADOWS_H_
