// Counts and arguments of called operations in the shared state block, which remain when records
// are lost. proto/ring/state_block.h describes a NumberSlot.
//
// One thread at a time calls NCCL on a communicator, so each slot has one writer at a time. Nothing
// here blocks, allocates or makes a system call, except ClaimNumbers, which takes a TryLock.
#ifndef GORDIAN_INTERPOSE_STATE_NUMBER_SLOTS_H_
#define GORDIAN_INTERPOSE_STATE_NUMBER_SLOTS_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Takes a free slot, or that of an ended communicator. Returns null, counted in the header, if
// there is none.
ring::NumberSlot* ClaimNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                               int32_t peer, ring::SignalChannel channel = {});

// As ring::PendingOperation::line. 0 for none.
inline uint16_t LineOf(const Process& process, const ring::NumberSlot* slot) {
  return slot == nullptr ? uint16_t{0} : static_cast<uint16_t>(slot - process.numbers + 1);
}

// The slot of these signals, claimed at the first of them. Null when there is none.
ring::NumberSlot* SignalNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                                int32_t peer, ring::SignalChannel channel);

// `slot` may be null in all of the following, which then do nothing.
// NCCL accepted the operation with number `sequence`. `in_group`: a GroupEnd launches it.
void CountOperation(ring::NumberSlot* slot, uint64_t sequence, const ring::Signature& arguments,
                    bool in_group);
// Its group has ended: launched.
void CountLaunched(ring::NumberSlot* slot);
// Its group was not launched: the newest number is free again.
void CountWithdrawn(ring::NumberSlot* slot);
// Notes that so many signals are called for; returns the first one's number. `first`: the first
// that this thread calls for on the communicator outside of groups.
uint64_t BeginSignals(ring::NumberSlot* slot, uint32_t count, bool first);
// NCCL accepted them: numbers them from NumberSlot::next on; the end of a group launches or drops
// its signals. None of these slots is null.
void CountSignals(ring::NumberSlot* slot, uint32_t count, bool in_group);
void SignalsLaunched(ring::NumberSlot* slot, uint32_t count);
// NCCL refused them, or their group, which had counted them, dropped them.
void SignalsWithdrawn(ring::NumberSlot* slot, uint32_t count, bool counted);
void FlagNumbers(ring::NumberSlot* slot, uint32_t flags);
// A window's registration begins, or has failed.
void CountWindow(ring::NumberSlot* slot, bool failed);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_NUMBER_SLOTS_H_
