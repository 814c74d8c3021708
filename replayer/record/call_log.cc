#include "replayer/record/call_log.h"

#include <algorithm>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::replayer {

using model::Call;
using model::RecordKind;
using model::WaitKind;
using model::WorkKind;

namespace {

bool MakesOrEndsComms(Call call) {
  return call == Call::kCommInit || call == Call::kCommSplit || call == Call::kCommAbort ||
         call == Call::kCommWindowRegister;
}

// Waits of the host whose end says that work is done.
bool Waits(WaitKind wait) {
  return wait == WaitKind::kStream || wait == WaitKind::kEvent || wait == WaitKind::kDevice ||
         wait == WaitKind::kFree || wait == WaitKind::kCopy;
}

bool BelongsInLog(const CallKind& kind) {
  if (kind.IsOperation() || kind.IsGroupEnd()) return true;
  if (kind.work == WorkKind::kEventRecord || kind.work == WorkKind::kEventWait) return true;
  return kind.call == Call::kHostWait && Waits(kind.wait);
}

// It did what it is there for. Of the others it does not matter whether they returned.
bool Counts(const LoggedCall& call, const CallKind& kind) {
  if (!kind.IsOperation() && kind.call != Call::kHostWait) return true;
  return call.lasts != LoggedCall::kNotReturned && model::Took(kind.result) &&
         (kind.flags & model::kCapturing) == 0;
}

void Sort(Blocks<LoggedCall>* calls) {
  std::vector<LoggedCall> all;
  all.reserve(calls->size());
  for (size_t i = 0; i < calls->size(); ++i) all.push_back((*calls)[i]);
  std::stable_sort(all.begin(), all.end(),
                   [](const LoggedCall& a, const LoggedCall& b) { return a.order < b.order; });
  for (size_t i = 0; i < all.size(); ++i) (*calls)[i] = all[i];
}

}  // namespace

RecordedCall LoggedProcess::Restore(const LoggedCall& call) const {
  const CallKind& kind = kinds[call.kind];
  RecordedCall all;
  all.order = call.order;
  all.end_order = call.end_order();
  all.time_ns = call.time_ns;
  all.site = kind.site;
  all.count = call.count;
  all.event = kind.event;
  all.thread = kind.thread;
  all.comm = kind.comm;
  all.stream = kind.stream;
  all.group = call.group;
  all.root_or_peer = kind.root_or_peer;
  all.result = kind.result;
  all.call_id = kind.call_id;
  all.call = kind.call;
  all.work = kind.work;
  all.wait = kind.wait;
  all.flags = kind.flags;
  all.datatype = kind.datatype;
  all.reduce_op = kind.reduce_op;
  return all;
}

size_t CallLog::KindHash::operator()(const CallKind& kind) const {
  uint64_t hash = 0;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u; };
  add(kind.site);
  add(kind.event ^ hash >> 32);
  add(uint64_t{kind.thread} << 32 | kind.comm);
  add((uint64_t{kind.stream} << 32 | static_cast<uint32_t>(kind.root_or_peer)) ^ hash >> 32);
  add(static_cast<uint64_t>(kind.call) << 32 | static_cast<uint64_t>(kind.work) << 16 |
      static_cast<uint64_t>(kind.wait) << 8 | kind.flags);
  return hash ^ hash >> 32;
}

CallLog::Process& CallLog::ProcessOf(model::ProcessId id) {
  if (latest_ != nullptr && latest_id_ == id) return *latest_;
  latest_ = &open_[id];
  latest_id_ = id;
  if (latest_->log == nullptr) latest_->log = &processes_[id];
  return *latest_;
}

CallLog::Thread& CallLog::ThreadOf(Process* process, model::ThreadId id) {
  std::vector<Thread>& threads = process->threads;
  if (process->latest < threads.size() && threads[process->latest].id == id)
    return threads[process->latest];
  const auto found = std::lower_bound(
      threads.begin(), threads.end(), id,
      [](const Thread& thread, model::ThreadId wanted) { return thread.id < wanted; });
  process->latest = static_cast<size_t>(found - threads.begin());
  if (found != threads.end() && found->id == id) return *found;
  return *threads.insert(found, {.id = id});
}

// `after`: the kind of the thread's call before it.
uint32_t CallLog::KindOf(Process* process, const CallKind& kind, uint32_t after) {
  std::vector<CallKind>& kinds = process->log->kinds;
  if (after != kNoKind && process->next[after] != kNoKind && kinds[process->next[after]] == kind)
    return process->next[after];
  const auto [known, added] = process->kinds.try_emplace(kind, static_cast<uint32_t>(kinds.size()));
  if (added) {
    kinds.push_back(kind);
    process->next.push_back(kNoKind);
  }
  if (after != kNoKind) process->next[after] = known->second;
  return known->second;
}

void CallLog::OnEnd(Process* process, const model::CallRecord& record) {
  Thread& thread = ThreadOf(process, record.thread);
  if (!thread.open || thread.call != record.call) return;
  thread.open = false;
  if (thread.makes_comms)
    process->log->comms_made = std::max(process->log->comms_made, record.order + 1);
  if (!thread.logged) return;
  LoggedCall& call = process->log->calls[thread.place];
  const uint64_t lasts = record.order > call.order ? record.order - call.order : 0;
  call.lasts = static_cast<uint32_t>(std::min<uint64_t>(lasts, LoggedCall::kNotReturned - 1));
  const int32_t result = record.As<ring::EndPayload>().result;
  if (result == 0) return;
  CallKind kind = process->log->kinds[call.kind];
  kind.result = result;
  call.kind = KindOf(process, kind, kNoKind);
}

void CallLog::OnRecord(const model::CallRecord& record) {
  const WaitKind waits = record.As<ring::HostWaitPayload>().kind;
  if ((record.flags & model::kHost) != 0 || waits == WaitKind::kOperation ||
      waits == WaitKind::kStore) {
    ++host_operations_;
    return;
  }
  Process& process = ProcessOf(record.process);
  LoggedProcess& log = *process.log;
  if (record.kind == RecordKind::kEnd) return OnEnd(&process, record);
  if (record.kind != RecordKind::kBegin && record.kind != RecordKind::kPoint) return;
  switch (record.call) {
    case Call::kStreamCreate:
    case Call::kStreamDestroy:
    case Call::kPoll:
    case Call::kText:
    case Call::kGraphDestroy:
    case Call::kGraphClone:
    case Call::kGraphNest:
    case Call::kGraphInstantiate:
    case Call::kGraphExecDestroy:
      return;
    case Call::kGraphEndCapture:
      log.graphs |= process.captures.erase(record.As<ring::GraphPayload>().capture) > 0;
      return;
    default:
      break;
  }
  CallKind kind;
  kind.site = record.call_site;
  kind.thread = record.thread;
  kind.comm = model::CommOf(record);
  kind.call_id = record.call_id;
  kind.call = record.call;
  kind.flags = record.flags;
  LoggedCall call;
  call.order = record.order;
  call.time_ns = record.time_ns;
  if (const auto* operation = std::get_if<ring::OperationPayload>(&record.payload)) {
    call.count = operation->count;
    call.group = operation->group;
    kind.stream = operation->stream;
    kind.root_or_peer = operation->root_or_peer;
    kind.datatype = operation->datatype;
    kind.reduce_op = operation->reduce_op;
    if (kind.IsOperation()) {
      ++operations_;
      if (const uint64_t capture = model::CaptureOf(record); capture != 0)
        process.captures.insert(capture);
    }
  } else if (const auto* group = std::get_if<ring::GroupPayload>(&record.payload)) {
    call.group = static_cast<uint16_t>(group->group);
  } else if (const auto* wait = std::get_if<ring::HostWaitPayload>(&record.payload)) {
    kind.wait = wait->kind;
    kind.stream = wait->stream;
    kind.event = wait->event;
  } else if (const auto* work = std::get_if<ring::WorkPayload>(&record.payload)) {
    if (work->kind == WorkKind::kGraphMarkers || work->kind == WorkKind::kGraphProgress) return;
    kind.work = work->kind;
    kind.stream = work->stream;
    kind.event = work->event;
    if (work->kind == WorkKind::kMemoryWait)
      log.memory_wait = std::min(log.memory_wait, record.order);
  }
  if ((kind.flags & model::kNonBlockingComm) != 0)
    log.non_blocking = std::min(log.non_blocking, record.order);
  const bool makes_comms = MakesOrEndsComms(record.call);
  if (makes_comms) log.comms_made = std::max(log.comms_made, record.order + 1);
  Thread& thread = ThreadOf(&process, record.thread);
  const bool logged = BelongsInLog(kind);
  if (record.kind == RecordKind::kBegin) {
    thread.open = true;
    thread.logged = logged;
    thread.makes_comms = makes_comms;
    thread.call = record.call;
    thread.place = log.calls.size();
  } else if (record.order != 0) {
    call.lasts = 0;
  }
  if (!logged) return;
  call.kind = thread.last_kind = KindOf(&process, kind, thread.last_kind);
  log.calls.push_back(call);
}

void CallLog::Finish() {
  open_.clear();
  latest_ = nullptr;
  for (auto& [id, process] : processes_) {
    Blocks<LoggedCall>& calls = process.calls;
    size_t kept = 0;
    bool sorted = true;
    for (size_t i = 0; i < calls.size(); ++i) {
      const LoggedCall call = calls[i];
      const CallKind& kind = process.kinds[call.kind];
      if (call.lasts == LoggedCall::kNotReturned && kind.IsOperation())
        process.unreturned = std::min(process.unreturned, call.order);
      if (!Counts(call, kind)) continue;
      sorted &= kept == 0 || calls[kept - 1].order < call.order;
      if (kept != i) calls[kept] = call;
      ++kept;
    }
    calls.Shrink(kept);
    if (!sorted) Sort(&calls);
  }
}

}  // namespace gordian::replayer
