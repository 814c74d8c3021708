// Tracks which NCCL operations precede what: on streams, before events, before host waits.
//
// Kernels, copies and host functions end by themselves; only an NCCL operation in front can hold a
// stream up, on it or, through an event, on another stream. So the predecessors of work are a few
// places of operations (Position), and those known to be done drop out. Lists are short and
// truncated when full: a missing wait makes the analyzer believe that the job can do more than it
// can, never less. Order through the legacy default stream (W13) is not included.
//
// Any thread; nothing blocks or allocates, except the first operation of a stream, which gets its
// queue from the mapped file.
#ifndef GORDIAN_INTERPOSE_STATE_OPERATION_ORDER_H_
#define GORDIAN_INTERPOSE_STATE_OPERATION_ORDER_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Adds the operations that precede the stream's next work to *behind.
void AddBehindStream(const Process& process, StreamState& stream, Behind* behind);
// Adds the operations that the event stands for; nothing for an unknown event.
void AddBehindEvent(const Process& process, const void* event, Behind* behind);
// Every stream of the device.
void AddBehindDevice(Process& process, int32_t device, Behind* behind);

// The event was recorded on the stream, which had `ordinal` as its last one.
void EventRecorded(Process& process, const void* event, StreamState& stream);
// The event's predecessors are unknown from here on.
void EventForgotten(Process& process, const void* event);
// The stream waits for the event at `ordinal`.
void EventAwaited(const Process& process, const void* event, StreamState& stream, uint64_t ordinal);

// The operation was enqueued on the stream. Several with the same `launch` (Record::order of the
// call that launched them) are of one group.
void AddPending(Process& process, StreamState& stream, const CalledOperation& operation,
                uint64_t ordinal, uint64_t launch, bool in_group);
// Notes an operation at `ordinal` without its description.
void AddPendingGap(StreamState& stream, uint64_t ordinal);

// A host wait that covered these places has returned.
void NoteSynced(const Process& process, const Behind& covered);

// The stream's slot goes to another stream.
void ForgetOrder(StreamState& stream);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_OPERATION_ORDER_H_
