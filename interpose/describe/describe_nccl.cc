#include "interpose/describe/describe_nccl.h"

#include "interpose/describe/nccl_deferred.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/progress/graph_markers.h"
#include "interpose/state/handle_tables.h"
#include "interpose/state/number_slots.h"
#include "interpose/state/operation_order.h"
#include "interpose/state/ring_client.h"
#include "interpose/torch/torch_groups.h"

namespace gordian::interpose {

size_t ElementSize(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

namespace {

using ring::Meaning;

bool Accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

constexpr Meaning MeaningOf(CallId call) { return ring::kCalls[call].meaning; }

// As nccl.h defines "in place" for each call.
bool IsInPlace(CallId call, const OperationArguments& a, const CommState* comm) {
  const auto send = reinterpret_cast<uintptr_t>(a.send);
  const auto receive = reinterpret_cast<uintptr_t>(a.receive);
  const auto block = [&](int index) {
    return static_cast<uintptr_t>(index) * a.count * ElementSize(a.datatype);
  };
  const int rank = comm != nullptr ? comm->rank : -1;
  switch (MeaningOf(call)) {
    case Meaning::kSend:
    case Meaning::kRecv:
      return false;
    case Meaning::kAllGather:
      return rank >= 0 && send == receive + block(rank);
    case Meaning::kReduceScatter:
      return rank >= 0 && receive == send + block(rank);
    case Meaning::kGather:
      return rank == a.root_or_peer && rank >= 0 && send == receive + block(rank);
    case Meaning::kScatter:
      return rank == a.root_or_peer && rank >= 0 && receive == send + block(rank);
    default:
      return send == receive;
  }
}

uint8_t ReduceOpByte(int op) {
  if (op < 0) return 255;
  return op < ncclNumOps ? static_cast<uint8_t>(op) : uint8_t{254};
}

bool IsTransfer(CallId call) {
  return MeaningOf(call) == Meaning::kSend || MeaningOf(call) == Meaning::kRecv;
}

constexpr bool IsSignal(CallId call) {
  return ring::kCalls[call].payload == ring::PayloadKind::kSignal;
}

// Null for collectives, and for a peer that does not exist.
PairNumbers* PairOf(CallId call, CommState* comm, int peer) {
  if (comm == nullptr || !IsTransfer(call) || peer < 0 || peer >= comm->nranks ||
      comm->p2p == nullptr) {
    return nullptr;
  }
  return &comm->p2p[2 * peer + (MeaningOf(call) == Meaning::kSend ? 0 : 1)];
}

bool HasRoot(CallId call) {
  const Meaning meaning = MeaningOf(call);
  return meaning == Meaning::kBroadcast || meaning == Meaning::kReduce ||
         meaning == Meaning::kGather || meaning == Meaning::kScatter;
}

// By meaning: the row that stands for all rows of an operation. Signals have none.
struct PlainForms {
  CallId rows[static_cast<int>(Meaning::kWaitSignal) + 1];
};
consteval PlainForms MakePlainForms() {
  PlainForms plain = {};
  for (uint16_t call = 1; call < ring::kCallCount; ++call) {
    const ring::CallInfo& row = ring::kCalls[call];
    if (row.payload != ring::PayloadKind::kOperation || row.Has(ring::kOtherForm)) continue;
    CallId& known = plain.rows[static_cast<int>(row.meaning)];
    ring::effects::Need(known == ring::kCallNone);  // else one of the two is a kOtherForm
    known = static_cast<CallId>(call);
  }
  return plain;
}
constexpr PlainForms kPlainForms = MakePlainForms();

// The arguments on which all members must agree, in the same form at each of them.
ring::Signature SignatureOf(CallId call, uint64_t site, const OperationNote& note) {
  if (IsTransfer(call)) {
    const uint64_t bytes = note.count * ElementSize(static_cast<ncclDataType_t>(note.datatype));
    return {bytes, -1, ring::kCall_ncclSend, 0, 255, 0, site};
  }
  const CallId same = kPlainForms.rows[static_cast<int>(MeaningOf(call))];
  return {
      note.count, HasRoot(call) ? note.root_or_peer : -1, same, note.datatype, note.reduce_op, 0,
      site};
}

// Where the state block counts the call; null if it does not.
ring::NumberSlot* NumbersOf(ThreadContext& thread, CallId call, const OperationNote& note) {
  if (note.counter == nullptr) return nullptr;
  if (note.pair == nullptr) return note.comm->numbers;
  if (__builtin_expect(note.pair->slot == nullptr, 0)) {
    const bool send = MeaningOf(call) == Meaning::kSend;
    note.pair->slot = ClaimNumbers(*thread.process, *note.comm,
                                   send ? ring::NumberKind::kSend : ring::NumberKind::kReceive,
                                   note.root_or_peer);
  }
  return note.pair->slot;
}

// False for an empty collective, which NCCL accepts and does not launch.
bool IsLaunched(CallId call, const OperationNote& note) {
  return note.count != 0 || IsTransfer(call);
}

CalledOperation Called(CallId call, uint64_t site, const OperationNote& note) {
  return {site,
          note.count,
          note.sequence,
          note.comm != nullptr ? note.comm->id : ring::kNoId,
          note.root_or_peer,
          call,
          note.datatype,
          note.reduce_op,
          0};
}

// Keeps an operation of the open group, whose ordinal is known at the group's end.
void HoldForGroup(ThreadContext& thread, StreamState& stream, const CalledOperation& operation) {
  if (thread.group_operation_count == kGroupOperations) {
    ++thread.group_operations_left_out;
    return;
  }
  thread.group_operations_held[thread.group_operation_count++] = {&stream, operation};
}

// The group's work on one stream has its ordinal.
void LaunchHeld(ThreadContext& thread, StreamState& stream, uint64_t ordinal) {
  for (uint32_t i = 0; i < thread.group_operation_count; ++i) {
    const ThreadContext::GroupOperation& held = thread.group_operations_held[i];
    if (held.stream != &stream) continue;
    AddPending(*thread.process, stream, held.operation, ordinal, thread.slot->call_order, true);
  }
  if (thread.group_operations_left_out != 0) AddPendingGap(stream, ordinal);
}

template <typename T, uint32_t kSize>
void AddOnce(T* value, T* (&list)[kSize], uint32_t* count) {
  for (uint32_t i = *count; i-- > 0;) {
    if (list[i] == value) return;
  }
  if (*count < kSize) list[(*count)++] = value;
}

// NCCL launches all of a group or nothing: gives back the numbers of dropped operations.
void GiveNumbersBack(ThreadContext& thread) {
  for (uint32_t i = 0; i < thread.group_number_count; ++i) {
    const ThreadContext::GroupNumber& taken = thread.group_numbers[i];
    if (taken.counter == nullptr) {
      SignalsWithdrawn(taken.slot, static_cast<uint32_t>(taken.signals), true);
      continue;
    }
    const uint64_t next = taken.counter->load(std::memory_order_relaxed) - 1;
    taken.counter->store(next, std::memory_order_relaxed);
    CountWithdrawn(taken.slot);
    if (taken.counter == &taken.comm->next_sequence) Put(taken.comm->slot->next_sequence, next);
  }
  thread.group_number_count = 0;
}

// The state of a communicator during this call; kUnknown if the call does not change it.
ring::CommState StateDuring(CallId call) {
  switch (MeaningOf(call)) {
    case Meaning::kCommFinalize:
      return ring::CommState::kFinalizing;
    case Meaning::kCommAbort:
      return ring::CommState::kAborted;
    case Meaning::kCommRevoke:
      return ring::CommState::kRevoked;
    default:
      return ring::CommState::kUnknown;
  }
}
bool EndsComm(CallId call) {
  return MeaningOf(call) == Meaning::kCommDestroy || MeaningOf(call) == Meaning::kCommAbort;
}

uint32_t CountOf(const GordianNcclWaitSignalDesc& signal) {
  return signal.opCnt > 0 ? static_cast<uint32_t>(signal.opCnt) : 0;
}

// Where the state block counts these; null if it does not.
ring::NumberSlot* LineOf(ThreadContext& thread, CallId call, const OperationNote& note, int i) {
  const GordianNcclWaitSignalDesc& signal = note.signals[i];
  const bool counts = note.comm != nullptr && (note.flags & ring::kFlagCapturing) == 0 &&
                      signal.opCnt > 0 && signal.peer >= 0 && signal.peer < note.comm->nranks;
  if (!counts) return nullptr;
  const bool waits = MeaningOf(call) == Meaning::kWaitSignal;
  return SignalNumbers(*thread.process, *note.comm,
                       waits ? ring::NumberKind::kSignalsAwaited : ring::NumberKind::kSignalsSent,
                       signal.peer, {signal.sigIdx, signal.ctx});
}

// Returns for the first signal the line that the call's begin found; null if another communicator
// has taken it, which happens once a thread aborts this one.
ring::NumberSlot* LineAtEnd(ThreadContext& thread, CallId call, const OperationNote& note, int i) {
  if (i != 0) return LineOf(thread, call, note, i);
  ring::NumberSlot* const line = note.first_line;
  if (line == nullptr) return nullptr;
  return Shared(line->comm).load(std::memory_order_relaxed) == note.comm->id ? line : nullptr;
}

// kBegin of the call with the first of its signals, and a kPoint for each further one.
void RecordSignals(ThreadContext& thread, CallId call, uint64_t site, uint64_t ticks, uint32_t comm,
                   uint32_t stream, OperationNote& note) {
  const uint8_t flags = note.flags;
  const bool first = (flags & ring::kFlagInGroup) == 0;
  for (int i = 0; i == 0 || i < note.signal_count; ++i) {
    ring::NumberSlot* const line = i < note.signal_count ? LineOf(thread, call, note, i) : nullptr;
    if (i == 0) note.first_line = line;
    const uint64_t number =
        i < note.signal_count ? BeginSignals(line, CountOf(note.signals[i]), first && i == 0) : 0;
    ring::Record* record =
        StartRecord(thread, i == 0 ? ring::RecordKind::kBegin : ring::RecordKind::kPoint, call,
                    flags, i == 0 ? note.order : NextOrder(thread), ticks, site);
    if (record == nullptr) continue;  // counted as lost
    record->payload.signal = {
        comm, stream, -1, 0, 0, 0, thread.group_depth != 0 ? thread.group_number : 0, 0};
    if (i < note.signal_count) {
      const GordianNcclWaitSignalDesc& signal = note.signals[i];
      ring::SignalPayload& payload = record->payload.signal;
      payload.peer = signal.peer;
      payload.index = signal.sigIdx;
      payload.context = signal.ctx;
      payload.count = CountOf(signal);
      payload.number = static_cast<uint32_t>(number);
    }
    FinishRecord(thread);
  }
}

// NCCL accepted the call: counts the signals, at their ordinal unless they are in a group.
[[gnu::noinline]] void EndSignals(ThreadContext& thread, CallId call, uint64_t site,
                                  const OperationNote& note, uint64_t ordinal) {
  const bool in_group = (note.flags & ring::kFlagInGroup) != 0;
  for (int i = 0; i < note.signal_count; ++i) {
    ring::NumberSlot* const slot = LineAtEnd(thread, call, note, i);
    if (slot == nullptr) continue;
    const uint32_t count = CountOf(note.signals[i]);
    const CalledOperation operation = {site,
                                       count,
                                       slot->next,
                                       note.comm->id,
                                       note.signals[i].peer,
                                       call,
                                       0,
                                       255,
                                       LineOf(*thread.process, slot)};
    if (!in_group) {
      AddPending(*thread.process, *note.stream, operation, ordinal, note.order, false);
    } else {
      HoldForGroup(thread, *note.stream, operation);
      if (thread.group_number_count < kGroupNumbers) {
        thread.group_numbers[thread.group_number_count++] = {{.signals = count}, nullptr, slot};
      } else {
        Add(thread.header->lost_numbers, uint64_t{1});  // open for ever
      }
    }
    CountSignals(slot, count, in_group);
  }
}

[[gnu::noinline]] void RefuseSignals(ThreadContext& thread, CallId call,
                                     const OperationNote& note) {
  for (int i = 0; i < note.signal_count; ++i) {
    ring::NumberSlot* const slot = LineAtEnd(thread, call, note, i);
    if (slot != nullptr) SignalsWithdrawn(slot, CountOf(note.signals[i]), false);
  }
}

void AddGraphStream(ThreadContext& thread, StreamState& stream, uint64_t capture) {
  for (uint32_t i = 0; i < thread.group_graph_stream_count; ++i) {
    if (thread.group_graph_streams[i].stream == &stream) return;
  }
  if (thread.group_graph_stream_count == kGroupGraphStreams) return;
  thread.group_graph_streams[thread.group_graph_stream_count++] = {&stream, capture, 0};
}

uint64_t GiveOrdinal(StreamState& stream) {
  return Shared(stream.slot->enqueued).fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void BeginOperation(ThreadContext& thread, CallId call, uint64_t site,
                    const OperationArguments& arguments, OperationNote* note) {
  Process& process = *thread.process;
  PrepareDriver(thread);
  EnsureWatcher(process);
  StopPolling(thread);
  MarkGpuThread(thread);
  CommState* comm = FindComm(thread, arguments.comm);
  NameByTorch(thread, comm);
  uint64_t handle = reinterpret_cast<uint64_t>(arguments.stream);
  if (handle == 0) handle = kLegacyHandle;
  // A default stream is that of the communicator's device, whatever device is current.
  int32_t device = 0;
  if (handle <= kPerThreadHandle && !arguments.no_stream) {
    device = comm != nullptr ? comm->device : CurrentDevice(thread);
  }
  StreamState* stream = arguments.no_stream ? nullptr : FindStream(thread, handle, device);

  uint8_t flags = comm != nullptr ? comm->flags : 0;
  if (thread.group_depth != 0) flags |= ring::kFlagInGroup;
  if (IsInPlace(call, arguments, comm)) flags |= ring::kFlagInPlace;
  if (stream != nullptr && IsCapturing(thread, *stream)) flags |= ring::kFlagCapturing;
  // NCCL took another call on it, so it has launched everything before.
  if (comm != nullptr && comm->deferred_count.load(std::memory_order_relaxed) != 0 &&
      thread.group_depth == 0) {
    FlushDeferred(thread, *comm);
  }

  note->comm = comm;
  note->stream = stream;
  note->flags = flags;
  note->pair = PairOf(call, comm, arguments.root_or_peer);
  note->counter = note->pair != nullptr                                     ? &note->pair->next
                  : comm != nullptr && !IsTransfer(call) && !IsSignal(call) ? &comm->next_sequence
                                                                            : nullptr;
  note->signals = arguments.signals;
  note->signal_count = arguments.signals != nullptr ? arguments.signal_count : 0;
  note->count = arguments.count;
  note->root_or_peer = arguments.root_or_peer;
  note->datatype = static_cast<uint8_t>(arguments.datatype);
  note->reduce_op = ReduceOpByte(arguments.reduce_op);
  note->sequence = note->counter != nullptr ? note->counter->load(std::memory_order_relaxed) : 0;

  note->capture = 0;
  note->graph_front = 0;
  uint64_t number = note->sequence;
  if ((flags & ring::kFlagCapturing) != 0) {
    // The capture began unseen, and so will its graph's launches: the time of the run is unknown.
    if (process.active_captures.load(std::memory_order_relaxed) != 0) {
      note->capture = CaptureOf(stream->handle);
    }
    number = note->capture;
    process.captured_operations.store(1, std::memory_order_relaxed);
    if (GraphMarkersOn(process) && (flags & ring::kFlagInGroup) == 0 && !IsSignal(call)) {
      note->graph_front = MarkCaptured(thread, *stream, note->capture);
    }
    if (comm != nullptr) {
      FlagNumbers(comm->numbers, ring::kNumbersCaptured | ring::kNumbersIncomparable);
    }
  }
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = ReadTicks(thread);
  note->order = order;
  const uint32_t comm_id = comm != nullptr ? comm->id : ring::kNoId;
  const uint32_t stream_id = stream != nullptr ? stream->id : ring::kNoId;
  const ring::NumberKind kind = !IsTransfer(call)                   ? ring::NumberKind::kCollective
                                : MeaningOf(call) == Meaning::kSend ? ring::NumberKind::kSend
                                                                    : ring::NumberKind::kReceive;
  note->route = {{number, comm_id, IsTransfer(call) ? arguments.root_or_peer : -1, kind, 0}, false};
  if (IsSignal(call)) {
    RecordSignals(thread, call, site, ticks, comm_id, stream_id, *note);
  } else if (ring::Record* record =
                 StartRecord(thread, ring::RecordKind::kBegin, call, flags, order, ticks, site)) {
    record->payload.operation = {
        comm_id,
        stream_id,
        arguments.count,
        number,
        arguments.root_or_peer,
        note->datatype,
        note->reduce_op,
        thread.group_depth != 0 ? static_cast<uint16_t>(thread.group_number) : uint16_t{0}};
    FinishRecord(thread);
  }
  EnterCall(thread, call, order, ticks, site,
            {comm_id, stream_id, arguments.count, number, arguments.root_or_peer, note->datatype,
             note->reduce_op, 0, flags, -1, 0});
  if (stream != nullptr && (flags & (ring::kFlagInGroup | ring::kFlagCapturing)) == 0) {
    MarkBefore(thread, *stream);
  }
}

void EndOperation(ThreadContext& thread, CallId call, uint64_t site, const OperationNote& note,
                  ncclResult_t result) {
  const bool capturing = (note.flags & ring::kFlagCapturing) != 0;
  const bool in_group = (note.flags & ring::kFlagInGroup) != 0;
  ring::EndPayload end = {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1};
  // A captured operation counts when its graph is launched.
  if (Accepted(result) && !capturing) {
    ring::NumberSlot* numbers = NumbersOf(thread, call, note);
    if (note.counter != nullptr) {
      note.counter->store(note.sequence + 1, std::memory_order_relaxed);
      if (note.counter == &note.comm->next_sequence) {
        Put(note.comm->slot->next_sequence, note.sequence + 1);
      }
    }
    if (in_group) {
      ++thread.group_operations;
      CountOperation(numbers, note.sequence, SignatureOf(call, site, note), true);
      if (note.counter != nullptr && thread.group_number_count < kGroupNumbers) {
        thread.group_numbers[thread.group_number_count++] = {{note.comm}, note.counter, numbers};
      }
      if (note.stream != nullptr) {
        if (IsLaunched(call, note)) HoldForGroup(thread, *note.stream, Called(call, site, note));
        if (note.signal_count > 0) EndSignals(thread, call, site, note, 0);
        AddOnce(note.stream, thread.group_streams, &thread.group_stream_count);
      }
      if (note.comm != nullptr && (note.flags & ring::kFlagNonBlocking) != 0) {
        AddOnce(note.comm, thread.group_comms, &thread.group_comm_count);
      }
    } else if (note.stream != nullptr) {
      end.stream = note.stream->id;
      end.ordinal = GiveOrdinal(*note.stream);
      if (IsLaunched(call, note)) {
        AddPending(*thread.process, *note.stream, Called(call, site, note), end.ordinal, note.order,
                   false);
      }
      if (note.signal_count > 0) EndSignals(thread, call, site, note, end.ordinal);
      CountOperation(numbers, note.sequence, SignatureOf(call, site, note), false);
      if (result == ncclSuccess) {
        MarkAfter(thread, *note.stream, end.ordinal);
      } else if (note.comm != nullptr) {
        Defer(thread, *note.comm, *note.stream);
      }
    }
  }
  if (note.signal_count > 0 && !Accepted(result)) RefuseSignals(thread, call, note);
  const uint64_t order = NextOrder(thread);
  EndKernelRuns(thread, order);
  const uint8_t flags = note.route.elsewhere ? note.flags | ring::kFlagElsewhere : note.flags;
  PublishEnd(thread, call, flags, order, RecentTicks(thread), site, end);
  if (capturing && result == ncclSuccess && !IsSignal(call) && GraphMarkersOn(*thread.process)) {
    if (in_group) {
      AddGraphStream(thread, *note.stream, note.capture);
    } else {
      NoteCapturedBetween(thread, site, *note.stream, note.capture, note.graph_front,
                          MarkCaptured(thread, *note.stream, note.capture));
    }
  }
  LeaveCall(thread);
}

void EndGroupStart(ThreadContext& thread, ncclResult_t result) {
  StopPolling(thread);
  if (result != ncclSuccess) return;
  if (thread.group_depth++ == 0) {
    ++thread.group_number;
    thread.group_operations = 0;
    thread.group_stream_count = 0;
    thread.group_init_count = 0;
    thread.group_comm_count = 0;
    thread.group_graph_stream_count = 0;
    thread.group_number_count = 0;
    thread.group_operation_count = 0;
    thread.group_operations_left_out = 0;
  }
  Put(thread.slot->open_group, thread.group_depth);
}

void BeginGroupEnd(ThreadContext& thread, CallId call, uint64_t site) {
  StopPolling(thread);
  if (thread.group_depth != 1) return;  // inner ones only count; without a start it is an error
  EnsureWatcher(*thread.process);
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = ReadTicks(thread);
  if (ring::Record* record =
          StartRecord(thread, ring::RecordKind::kBegin, call, 0, order, ticks, site)) {
    record->payload.group = {
        thread.group_number, thread.group_operations, thread.group_stream_count, 0, {0, 0}};
    FinishRecord(thread);
  }
  EnterCall(thread, call, order, ticks, site, {});
  for (uint32_t i = 0; i < thread.group_stream_count; ++i) {
    MarkBefore(thread, *thread.group_streams[i]);
  }
  for (uint32_t i = 0; i < thread.group_graph_stream_count; ++i) {
    ThreadContext::GroupGraphStream& captured = thread.group_graph_streams[i];
    captured.front = MarkCaptured(thread, *captured.stream, captured.capture);
  }
}

void EndGroupEnd(ThreadContext& thread, CallId call, uint64_t site, ncclResult_t result) {
  if (thread.group_depth == 0) return;
  if (--thread.group_depth != 0) {
    Put(thread.slot->open_group, thread.group_depth);
    return;
  }
  if (Accepted(result)) {
    for (uint32_t i = 0; i < thread.group_stream_count; ++i) {
      StreamState& stream = *thread.group_streams[i];
      const uint64_t ordinal = GiveOrdinal(stream);
      LaunchHeld(thread, stream, ordinal);
      const uint64_t order = NextOrder(thread);
      EndKernelRuns(thread, order);
      if (ring::Record* record = StartRecord(thread, ring::RecordKind::kEnqueue, call, 0, order,
                                             ReadTicks(thread), site)) {
        record->payload.enqueue = {thread.group_number, stream.id, ordinal, {0, 0}};
        FinishRecord(thread);
      }
      if (result == ncclSuccess) {
        MarkAfter(thread, stream, ordinal);
      } else {
        if (thread.group_comm_count == 0) Add(thread.header->lost_markers, uint64_t{1});
        for (uint32_t c = 0; c < thread.group_comm_count; ++c) {
          Defer(thread, *thread.group_comms[c], stream);
        }
      }
    }
    for (uint32_t i = 0; i < thread.group_number_count; ++i) {
      const ThreadContext::GroupNumber& taken = thread.group_numbers[i];
      if (taken.counter == nullptr) {
        SignalsLaunched(taken.slot, static_cast<uint32_t>(taken.signals));
      } else {
        CountLaunched(taken.slot);
      }
    }
  } else {
    GiveNumbersBack(thread);
  }
  for (uint32_t i = 0; result == ncclSuccess && i < thread.group_graph_stream_count; ++i) {
    const ThreadContext::GroupGraphStream& captured = thread.group_graph_streams[i];
    NoteCapturedBetween(thread, site, *captured.stream, captured.capture, captured.front,
                        MarkCaptured(thread, *captured.stream, captured.capture));
  }
  FinishGroupInits(thread, result);
  const uint64_t order = NextOrder(thread);
  EndKernelRuns(thread, order);
  PublishEnd(thread, call, 0, order, ReadTicks(thread), site,
             {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1});
  LeaveCall(thread);
  // Last: while the collector sees an open group, its end has not returned.
  Put(thread.slot->open_group, uint32_t{0});
}

void EndGroupSimulateEnd(ThreadContext& thread) {
  StopPolling(thread);
  if (thread.group_depth == 0) return;
  // Outermost: NCCL forgets the group, which has launched nothing.
  if (--thread.group_depth == 0) GiveNumbersBack(thread);
  Put(thread.slot->open_group, thread.group_depth);
}

CommState* BeginCommCall(ThreadContext& thread, CallId call, uint64_t site, ncclComm_t handle,
                         ring::CommState* before) {
  Process& process = *thread.process;
  EnsureWatcher(process);
  StopPolling(thread);
  MarkGpuThread(thread);
  CommState* comm = FindComm(thread, handle);
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = ReadTicks(thread);
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kBegin, call,
                                         comm != nullptr ? comm->flags : 0, order, ticks, site)) {
    record->payload.comm_call = {comm != nullptr ? comm->id : ring::kNoId, 0, {0, 0, 0}};
    FinishRecord(thread);
  }
  ring::CallArguments given = {};
  given.comm = comm != nullptr ? comm->id : ring::kNoId;
  EnterCall(thread, call, order, ticks, site, given);
  if (comm == nullptr) return nullptr;
  if (MeaningOf(call) == Meaning::kCommWindowRegister) CountWindow(comm->numbers, false);
  *before = GetCommState(*comm);
  if (const ring::CommState state = StateDuring(call); state != ring::CommState::kUnknown) {
    SetCommState(*comm, state);
  }
  // Before the real call: once NCCL has freed it, another thread may get its address.
  if (EndsComm(call)) UnbindComm(process, *comm);
  return comm;
}

void EndCommCall(ThreadContext& thread, CallId call, uint64_t site, CommState* comm,
                 ncclComm_t handle, ncclResult_t result, ring::CommState before) {
  if (comm != nullptr && !Accepted(result)) {
    // Resets only what this call set: it may have failed because another thread aborted.
    ring::CommState during = StateDuring(call);
    if (during != ring::CommState::kUnknown) {
      Shared(comm->slot->state).compare_exchange_strong(during, before);
    }
    if (MeaningOf(call) == Meaning::kCommWindowRegister) CountWindow(comm->numbers, true);
    if (EndsComm(call)) BindComm(*thread.process, *comm, reinterpret_cast<uint64_t>(handle));
  } else if (comm != nullptr && EndsComm(call)) {
    if (MeaningOf(call) == Meaning::kCommDestroy) SetCommState(*comm, ring::CommState::kDestroyed);
    // No later call will query it: NCCL has launched or dropped the rest.
    if (comm->deferred_count.load(std::memory_order_relaxed) != 0) FlushDeferred(thread, *comm);
  }
  PublishEnd(thread, call, comm != nullptr ? comm->flags : 0, NextOrder(thread), ReadTicks(thread),
             site, {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1});
  LeaveCall(thread);
}

}  // namespace gordian::interpose
