#include "planner/proof/job_trace.h"

#include <algorithm>

#include "analyzer/model/collective.h"

namespace gordian::planner {

using model::Call;
using model::CallRecord;
using model::RecordKind;

std::string NameOf(const JobComm& comm, int index) {
  return comm.name.empty() ? "comm " + std::to_string(index) : comm.name;
}

JobProcess& JobTrace::Process(model::ProcessId process) {
  JobProcess& found = processes_[process];
  found.process = process;
  return found;
}

void JobTrace::OnProcess(model::ProcessId process, int env_rank) {
  Process(process).rank = env_rank;
}

void JobTrace::OnCommInit(JobProcess& process, const CallRecord& record) {
  const auto key = std::make_pair(process.process, model::CommOf(record));
  if (record.kind == RecordKind::kBegin) {
    inits_[key] = record.As<ring::CommInitPayload>();
    return;
  }
  const auto begun = inits_.find(key);
  if (key.second == 0 || begun == inits_.end()) return;
  ring::CommInitPayload init = begun->second;
  inits_.erase(begun);
  const auto& end = record.As<ring::EndPayload>();
  if (end.nranks > 0) init.nranks = end.nranks;
  if (end.rank >= 0) init.rank = end.rank;
  if (init.rank < 0) return;  // the call failed
  const int color = init.parent == 0 ? -1 : init.color;
  const auto [at, fresh] =
      by_uid_.emplace(std::make_pair(init.uid, color), static_cast<int>(comms_.size()));
  if (fresh) comms_.push_back({.uid = init.uid, .color = color, .size = init.nranks});
  comms_[at->second].members[init.rank] = process.process;
  process.comm_of[key.second] = at->second;
  const auto name = names_.find(key);
  if (name != names_.end()) comms_[at->second].name = name->second;
}

void JobTrace::OnRecord(const CallRecord& record) {
  JobProcess& process = Process(record.process);
  const auto thread = std::make_pair(record.process, record.thread);
  if (record.kind == RecordKind::kText) {
    const auto& text = record.As<ring::TextPayload>();
    const auto comm = process.comm_of.find(text.comm);
    std::string& name = comm != process.comm_of.end() ? comms_[comm->second].name
                                                      : names_[{record.process, text.comm}];
    name = model::NameOf(text);
    return;
  }
  if ((record.flags & model::kHost) != 0) return;  // of torch.distributed, without NCCL
  switch (record.call) {
    case Call::kCommInit:
    case Call::kCommInitAll:
    case Call::kCommSplit:
    case Call::kCommShrink:
    case Call::kCommGrow:
      return OnCommInit(process, record);
    case Call::kStreamCreate:
      process.streams[record.As<ring::StreamPayload>().stream] =
          record.As<ring::StreamPayload>().flags;
      return;
    default:
      break;
  }
  if (record.kind == RecordKind::kEnd) {
    const auto open = open_.find(thread);
    if (open == open_.end()) return;
    JobCall& call = process.calls[open->second];
    call.end_ns = record.time_ns;
    call.end_order = record.order;
    if (model::IsOperation(call.call)) {
      const auto& end = record.As<ring::EndPayload>();
      if (end.ordinal != 0) call.ordinal = end.ordinal;
      if (end.result != 0 && end.result != 7) call.call = Call::kOther;  // refused
    }
    open_.erase(open);
    return;
  }
  if (record.call == Call::kWaitSignal) process.signal_waits = true;
  const bool wanted = model::IsOperation(record.call) || record.call == Call::kStreamWork ||
                      record.call == Call::kHostWait || record.call == Call::kGroupEnd;
  if (!wanted || (record.flags & model::kCapturing) != 0 ||
      (record.kind != RecordKind::kBegin && record.kind != RecordKind::kPoint)) {
    return;
  }
  JobCall call{.thread = record.thread,
               .order = record.order,
               .end_order = record.order,
               .begin_ns = record.time_ns,
               .end_ns = record.time_ns,
               .call = record.call};
  if (const auto* operation = std::get_if<ring::OperationPayload>(&record.payload)) {
    call.stream = operation->stream;
    call.count = operation->count;
    call.sequence = operation->sequence;
    call.datatype = operation->datatype;
    call.reduce_op = operation->reduce_op;
    call.root_or_peer = operation->root_or_peer;
    if ((record.flags & model::kInGroup) != 0) call.group = operation->group;
    const auto comm = process.comm_of.find(operation->comm);
    if (comm != process.comm_of.end()) call.comm = comm->second;
  } else if (const auto* work = std::get_if<ring::WorkPayload>(&record.payload)) {
    process.graphs |= work->kind == model::WorkKind::kGraphLaunch;
    process.memory_waits |= work->kind == model::WorkKind::kMemoryWait;
    call.work = work->kind;
    call.stream = work->stream;
    call.event = work->event;
    call.ordinal = work->ordinal;
  } else if (const auto* wait = std::get_if<ring::HostWaitPayload>(&record.payload)) {
    call.wait = wait->kind;
    call.stream = wait->stream;
    call.event = wait->event;
    call.ordinal = wait->ordinal;
  } else if (const auto* group = std::get_if<ring::GroupPayload>(&record.payload)) {
    call.group = group->group;
  }
  process.calls.push_back(call);
  if (record.kind == RecordKind::kBegin) open_[thread] = process.calls.size() - 1;
}

void JobTrace::Finish() {
  bool by_environment = true;
  std::map<int, int> uses;
  for (auto& [id, process] : processes_) {
    std::stable_sort(process.calls.begin(), process.calls.end(),
                     [](const JobCall& a, const JobCall& b) { return a.order < b.order; });
    by_environment = by_environment && process.rank >= 0 && uses[process.rank]++ == 0;
  }
  if (by_environment) return;
  const auto largest = std::max_element(
      comms_.begin(), comms_.end(),
      [](const JobComm& a, const JobComm& b) { return a.members.size() < b.members.size(); });
  for (auto& [id, process] : processes_) process.rank = static_cast<int>(id);
  if (largest == comms_.end()) return;
  for (const auto& [rank, process] : largest->members) processes_[process].rank = rank;
}

}  // namespace gordian::planner
