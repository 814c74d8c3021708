// The C API by which the Python front end (interpose/python/) puts calls of torch.distributed into
// the calling thread's ring. Exported; called by ctypes with the interpreter's lock held.
//
// Each function is one record at most, and does nothing in a process that the shim does not record.
#include "interpose/torch/torch_api.h"

#include <string.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/state/ring_client.h"
#include "interpose/torch/torch_groups.h"

namespace gordian::interpose {
namespace {

// What the front end was written for; it records nothing with a shim that says another number.
constexpr uint32_t kApiVersion = 6;
constexpr uint64_t kPieceBytes = sizeof(ring::PiecePayload);
constexpr uint64_t kMostPieces = ring::kLastPiece - 1;

bool IsTorchCall(uint32_t call) { return call >= ring::kCallCount && call < ring::kEveryCallCount; }

// The calling thread, if it is to record this call.
ThreadContext* ThreadFor(uint32_t call) {
  ThreadContext* const thread = IsTorchCall(call) ? CurrentThread() : nullptr;
  if (thread != nullptr) {
    StopPolling(*thread);
    MarkGpuThread(*thread);
  }
  return thread;
}

// Begins a record at this moment; null: it was lost.
ring::Record* Start(ThreadContext& thread, ring::RecordKind kind, uint32_t call, uint8_t flags,
                    uint64_t site, uint64_t* order, uint64_t* ticks) {
  *order = NextOrder(thread);
  *ticks = ReadTicks(thread);
  return StartRecord(thread, kind, static_cast<CallId>(call), flags, *order, *ticks, site);
}

ring::Record* StartPoint(ThreadContext& thread, uint32_t call, uint8_t flags, uint64_t site) {
  uint64_t order = 0, ticks = 0;
  return Start(thread, ring::RecordKind::kPoint, call, flags, site, &order, &ticks);
}

// kEnd of the call that the thread is in.
void End(ThreadContext& thread, uint32_t call, const ring::EndPayload& end) {
  PublishEnd(thread, static_cast<CallId>(call), 0, NextOrder(thread), ReadTicks(thread), 0, end);
  LeaveCall(thread);
}

// An exception has ended a wait that C++ has begun.
void EndTorchWait(TorchCall& torch) {
  if (torch.waits != ring::kCallNone) gordian_torch_waited(torch.waits, 1);
  torch.waits = ring::kCallNone;
}

}  // namespace

void RecordTorchOperation(ThreadContext& thread, uint32_t call, uint32_t comm, uint64_t number,
                          int32_t root_or_peer, uint64_t count, uint32_t types, uint64_t site,
                          bool with_all) {
  StopPolling(thread);
  MarkGpuThread(thread);
  if (ring::Record* const record = StartPoint(thread, call, ring::kFlagHost, site)) {
    record->payload.operation = {comm,
                                 ring::kNoId,
                                 count,
                                 number,
                                 root_or_peer,
                                 static_cast<uint8_t>(types),
                                 static_cast<uint8_t>(types >> 8),
                                 with_all ? ring::kWithAll : uint16_t{0}};
    FinishRecord(thread);
  }
}

void SeeTorchOperation(ThreadContext& thread, const TorchOperation& operation) {
  if (ring::Record* const record = StartPoint(thread, ring::kTorchCall_wait, 0, 0)) {
    record->payload.host_wait = {ring::WaitKind::kOperation,
                                 operation.comm,
                                 -1,
                                 operation.part,
                                 operation.peer,
                                 operation.number};
    FinishRecord(thread);
  }
}

void EnterTorchCall(uint32_t comm, uint64_t site, bool recorded, bool runs_others,
                    TorchCall* outer) {
  ThreadContext* const thread = CurrentThread();
  if (thread == nullptr) return;
  TorchCall& torch = thread->torch;
  if (torch.depth != 0 && !torch.runs_others) {
    ++torch.depth;
    return;
  }
  EndTorchWait(torch);
  *outer = torch;
  torch.depth = 1;
  torch.site = site != 0 ? site : outer->site;
  torch.comm = comm;
  torch.recorded = recorded;
  torch.runs_others = runs_others;
  torch.issue = 0;
  torch.issued.comm = ring::kNoId;
}

bool WithinTorchCall() {
  const ThreadContext* const thread = CurrentThread();
  return thread != nullptr && thread->torch.depth != 0;
}

void LeaveTorchCall(bool failed, const TorchCall& outer) {
  ThreadContext* const thread = CurrentThread();
  if (thread == nullptr) return;
  TorchCall& torch = thread->torch;
  if (torch.depth == 0 || --torch.depth != 0) return;
  EndTorchWait(torch);
  if (failed && torch.issue != 0 && torch.issued.comm != ring::kNoId) {
    SeeTorchOperation(*thread, torch.issued);
  }
  torch = outer;
  torch.making = ring::kNoId;
}

}  // namespace gordian::interpose

using namespace gordian;
using namespace gordian::interpose;

GORDIAN_API uint32_t gordian_torch_version() { return kApiVersion; }

// The number of the first row of proto/ring/torch_calls.def.
GORDIAN_API uint32_t gordian_torch_first_call() { return ring::kCallCount; }

// The line of the job whose backward pass runs from here on; 0: none does, or several do.
GORDIAN_API void gordian_torch_backward(uint64_t site) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = CurrentThread();
  // A line is a number that means the same whenever it is read: it orders nothing.
  if (thread != nullptr) thread->process->backward_site.store(site, std::memory_order_relaxed);
}

// An id for a group in this process; 0: the process records nothing, or too many groups.
GORDIAN_API uint32_t gordian_torch_group() {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = CurrentThread();
  return thread != nullptr ? AddTorchGroup(*thread) : ring::kNoId;
}

// What NCCL's communicators are called that this group makes.
GORDIAN_API void gordian_torch_name(uint32_t comm, const char* name, uint64_t bytes) {
  ThreadContext* const thread = CurrentThread();
  TorchState* const torch = thread != nullptr ? TorchStateOf(*thread->process, false) : nullptr;
  TorchGroup* const group = torch != nullptr ? FindTorchGroup(*torch, comm) : nullptr;
  if (group == nullptr || name == nullptr) return;
  group->name_bytes = 0;
  const uint64_t kept = bytes < sizeof(group->name) ? bytes : sizeof(group->name);
  memcpy(group->name, name, kept);
  group->name_bytes = static_cast<uint32_t>(kept);
}

// Whether calls on the group come through gloo_entries.cc, whoever makes them.
GORDIAN_API uint32_t gordian_torch_bound(uint32_t comm) {
  ThreadContext* const thread = CurrentThread();
  TorchState* const torch = thread != nullptr ? TorchStateOf(*thread->process, false) : nullptr;
  TorchGroup* const group = torch != nullptr ? FindTorchGroup(*torch, comm) : nullptr;
  return group != nullptr && group->object != 0;
}

// How c10::TensorImpl lies in memory: where the number of elements is, and the type, whose numbers
// index `types` (ncclDataType_t, or 255).
GORDIAN_API void gordian_torch_layout(uint32_t elements_at, uint32_t type_at, const uint8_t* types,
                                      uint32_t count) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = CurrentThread();
  TorchState* const torch = thread != nullptr ? TorchStateOf(*thread->process, true) : nullptr;
  if (torch == nullptr) return;
  memset(torch->layout.types, 255, sizeof(torch->layout.types));
  memcpy(torch->layout.types, types, count < kTensorTypes ? count : kTensorTypes);
  torch->layout.type_at = type_at;
  torch->layout.elements_at = elements_at;
}

// The thread enters a call that makes a group, which all members, or all of `parent`'s, make.
GORDIAN_API void gordian_torch_init(uint32_t call, uint32_t comm, uint64_t uid, int32_t nranks,
                                    int32_t rank, uint32_t parent, int32_t color, uint64_t site) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  uint64_t order = 0, ticks = 0;
  ring::Record* const record =
      Start(*thread, ring::RecordKind::kBegin, call, ring::kFlagHost, site, &order, &ticks);
  if (record != nullptr) {
    record->payload.comm_init = {comm, nranks, rank, -1, uid, parent, color};
    FinishRecord(*thread);
  }
  ring::CallArguments given = {};
  given.comm = comm;
  given.flags = ring::kFlagHost;
  EnterCall(*thread, static_cast<CallId>(call), order, ticks, site, given);
  thread->torch.making = comm;
}

// The call has returned: with a group of `nranks`, with none of which this process is a member (0),
// or by an exception (`result` is not 0).
GORDIAN_API void gordian_torch_made(uint32_t call, uint32_t comm, int32_t nranks, int32_t rank,
                                    int32_t result) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  thread->torch.making = ring::kNoId;
  End(*thread, call, {result, ring::kNoId, 0, comm, nranks, rank, -1});
  if (nranks == 0 || result != 0) RemoveTorchGroup(*thread->process, comm);
}

// The process will not use the group any more.
GORDIAN_API void gordian_torch_destroyed(uint32_t call, uint32_t comm, uint64_t site) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  if (ring::Record* const record = StartPoint(*thread, call, ring::kFlagHost, site)) {
    record->payload.comm_call = {comm, 0, {0, 0, 0}};
    FinishRecord(*thread);
  }
  RemoveTorchGroup(*thread->process, comm);
}

// RecordTorchOperation, of an operation whose number is given here and returned. `tag`: of a
// transfer.
GORDIAN_API uint64_t gordian_torch_operation(uint32_t call, uint32_t comm, int32_t root_or_peer,
                                             uint64_t count, uint32_t types, uint64_t tag,
                                             uint64_t site) {
  ThreadContext* const thread = ThreadFor(call);
  TorchState* const torch = thread != nullptr ? TorchStateOf(*thread->process, false) : nullptr;
  TorchGroup* const group = torch != nullptr ? FindTorchGroup(*torch, comm) : nullptr;
  if (group == nullptr) return 0;
  const TorchPart part = call == ring::kTorchCall_send   ? kTorchSend
                         : call == ring::kTorchCall_recv ? kTorchReceive
                                                         : kTorchCollective;
  const uint64_t peer = part == kTorchCollective ? 0 : static_cast<uint64_t>(int64_t{root_or_peer});
  uint64_t number = 0;
  if (TakeTorchNumber(*thread->process, *torch, *group, part, peer, tag, &number)) {
    RecordTorchOperation(*thread, call, comm, number, root_or_peer, count, types, site);
  }
  return number;
}

// The thread begins to wait: for an operation (`comm`, `sequence`, its kind `part`, the peer of a
// transfer), or, with the row of stores, for the key with the hash `peer`.
GORDIAN_API void gordian_torch_wait(uint32_t call, uint32_t comm, uint64_t sequence, uint32_t part,
                                    uint64_t peer, uint64_t site) {
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  uint64_t order = 0, ticks = 0;
  ring::Record* const record =
      Start(*thread, ring::RecordKind::kBegin, call, 0, site, &order, &ticks);
  const ring::WaitKind kind = ring::RowOf(static_cast<uint16_t>(call)).wait;
  if (record != nullptr) {
    record->payload.host_wait = {kind, comm, -1, part, peer, sequence};
    FinishRecord(*thread);
  }
  ring::CallArguments given = {};
  given.comm = comm;
  given.sequence = sequence;
  EnterCall(*thread, static_cast<CallId>(call), order, ticks, site, given);
}

// The wait is over. `result` is not 0: by an exception, so that it proves nothing done.
GORDIAN_API void gordian_torch_waited(uint32_t call, int32_t result) {
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  End(*thread, call, {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1});
}

// The operation was seen done, or the key was set, without a wait.
GORDIAN_API void gordian_torch_seen(uint32_t call, uint32_t comm, uint64_t sequence, uint32_t part,
                                    uint64_t peer, uint64_t site) {
  ThreadContext* const thread = ThreadFor(call);
  if (thread == nullptr) return;
  if (ring::Record* const record = StartPoint(*thread, call, 0, site)) {
    record->payload.host_wait = {
        ring::RowOf(static_cast<uint16_t>(call)).wait, comm, -1, part, peer, sequence};
    FinishRecord(*thread);
  }
}

// A text of the row's kind, about `subject`.
GORDIAN_API void gordian_torch_text(uint32_t call, uint64_t subject, const char* text,
                                    uint64_t bytes) {
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = IsTorchCall(call) ? CurrentThread() : nullptr;
  if (thread == nullptr || text == nullptr) return;
  for (uint64_t piece = 0; piece < kMostPieces; ++piece) {
    const uint64_t at = piece * kPieceBytes;
    const uint64_t rest = bytes - at;
    const bool last = rest <= kPieceBytes || piece + 1 == kMostPieces;
    uint64_t order = 0, ticks = 0;
    ring::Record* const record =
        Start(*thread, ring::RecordKind::kLongText, call,
              static_cast<uint8_t>(piece | (last ? ring::kLastPiece : 0)), subject, &order, &ticks);
    if (record != nullptr) {
      memset(record->payload.piece.text, 0, kPieceBytes);
      memcpy(record->payload.piece.text, text + at, rest < kPieceBytes ? rest : kPieceBytes);
      FinishRecord(*thread);
    }
    if (last) return;
  }
}
