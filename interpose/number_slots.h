// Numbers and arguments of the operations that were called, in the shared state block: what remains
// of them when their records are lost. proto/ring/state_block.h says what is in a NumberSlot.
//
// One thread at a time calls NCCL on a communicator, so each slot has one writer at a time. Nothing
// here blocks, allocates or makes a system call, but for ClaimNumbers, which takes a TryLock.
#ifndef GORDIAN_INTERPOSE_NUMBER_SLOTS_H_
#define GORDIAN_INTERPOSE_NUMBER_SLOTS_H_

#include "interpose/shim_state.h"

namespace gordian::interpose {

// A free slot, or that of a communicator that is gone. Null when there is none: counted in the
// header.
ring::NumberSlot* ClaimNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                               int32_t peer);

// `slot` may be null in all of the following: then nothing is noted.
// The operation with number `sequence` was accepted. `in_group`: and is launched by a GroupEnd.
void CountOperation(ring::NumberSlot* slot, uint64_t sequence, const ring::Signature& arguments,
                    bool in_group);
// Its group has ended: launched.
void CountLaunched(ring::NumberSlot* slot);
// Its group was not launched: the newest number is free again.
void CountWithdrawn(ring::NumberSlot* slot);
void FlagNumbers(ring::NumberSlot* slot, uint32_t flags);
// A window is being registered, or that has failed.
void CountWindow(ring::NumberSlot* slot, bool failed);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_NUMBER_SLOTS_H_
