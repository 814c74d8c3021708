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
                               int32_t peer, ring::SignalChannel channel = {});

// As ring::PendingOperation::line. 0 for none.
inline uint16_t LineOf(const Process& process, const ring::NumberSlot* slot) {
  return slot == nullptr ? uint16_t{0} : static_cast<uint16_t>(slot - process.numbers + 1);
}

// The slot of these signals, claimed at the first of them. Null when there is none.
ring::NumberSlot* SignalNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                                int32_t peer, ring::SignalChannel channel);

// `slot` may be null in all of the following: then nothing is noted.
// The operation with number `sequence` was accepted. `in_group`: and is launched by a GroupEnd.
void CountOperation(ring::NumberSlot* slot, uint64_t sequence, const ring::Signature& arguments,
                    bool in_group);
// Its group has ended: launched.
void CountLaunched(ring::NumberSlot* slot);
// Its group was not launched: the newest number is free again.
void CountWithdrawn(ring::NumberSlot* slot);
// So many signals are called for; gives the number of the first. `first`: of what this thread calls
// for on the communicator, in no group.
uint64_t BeginSignals(ring::NumberSlot* slot, uint32_t count, bool first);
// They were accepted, and get the numbers from NumberSlot::next on; those in a group are launched,
// or dropped, at its end. None of these slots is null.
void CountSignals(ring::NumberSlot* slot, uint32_t count, bool in_group);
void SignalsLaunched(ring::NumberSlot* slot, uint32_t count);
// Refused, or dropped by their group, which had counted them.
void SignalsWithdrawn(ring::NumberSlot* slot, uint32_t count, bool counted);
void FlagNumbers(ring::NumberSlot* slot, uint32_t flags);
// A window is being registered, or that has failed.
void CountWindow(ring::NumberSlot* slot, bool failed);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_NUMBER_SLOTS_H_
