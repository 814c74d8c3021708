// What stands behind which operations of NCCL: on streams, behind events, in front of host waits.
//
// Kernels, copies and host functions end by themselves; what can hold a stream up is an operation
// of NCCL in front, on it or, by way of an event, on another stream. So "behind what does this
// stand" comes to a few places of operations (Position), and those that are known to be done drop
// out. Lists are short and are cut where they are full: a wait that is left out makes the analyzer
// believe that the job can do more than it can, never less. Order by way of the legacy default
// stream (W13) is not among it.
//
// Any thread; nothing blocks or allocates, but for the first operation of a stream, which gets its
// queue from the mapped file.
#ifndef GORDIAN_INTERPOSE_OPERATION_ORDER_H_
#define GORDIAN_INTERPOSE_OPERATION_ORDER_H_

#include "interpose/shim_state.h"

namespace gordian::interpose {

// The stream as it is now. Adds to *behind.
void AddBehindStream(const Process& process, StreamState& stream, Behind* behind);
// What the event stands behind. Adds nothing for one that is not known.
void AddBehindEvent(const Process& process, const void* event, Behind* behind);
// Every stream of the device.
void AddBehindDevice(Process& process, int32_t device, Behind* behind);

// The event was recorded on the stream, which had `ordinal` as its last one.
void EventRecorded(Process& process, const void* event, StreamState& stream);
// Nobody knows what it stands behind from here on.
void EventForgotten(Process& process, const void* event);
// The stream waits for the event at `ordinal`.
void EventAwaited(const Process& process, const void* event, StreamState& stream, uint64_t ordinal);

// The operation was enqueued on the stream. Several with the same `launch` (Record::order of the
// call that launched them) are of one group.
void AddPending(Process& process, StreamState& stream, const CalledOperation& operation,
                uint64_t ordinal, uint64_t launch, bool in_group);
// An operation at `ordinal` that is not told.
void AddPendingGap(StreamState& stream, uint64_t ordinal);

// A host wait that covered these places has returned.
void NoteSynced(const Process& process, const Behind& covered);

// The stream's slot goes to another stream.
void ForgetOrder(StreamState& stream);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_OPERATION_ORDER_H_
