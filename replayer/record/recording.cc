#include "replayer/record/recording.h"

#include <algorithm>

namespace gordian::replayer {

using model::Call;
using model::RecordKind;

namespace {

// The first call that began with this record or a later one.
auto At(const RecordedProcess& process, uint64_t order) {
  return std::lower_bound(
      process.calls.begin(), process.calls.end(), order,
      [](const RecordedCall& call, uint64_t wanted) { return call.order < wanted; });
}

}  // namespace

const RecordedCall* RecordedProcess::Find(uint64_t order) const {
  const auto found = At(*this, order);
  return found == calls.end() || found->order != order ? nullptr : &*found;
}

const RecordedCall* RecordedProcess::GroupEndOf(const RecordedCall& call) const {
  const auto found = std::find_if(At(*this, call.order), calls.end(), [&](const auto& next) {
    return next.thread == call.thread && next.call == Call::kGroupEnd;
  });
  return found == calls.end() ? nullptr : &*found;
}

void Recording::OnRecord(const model::CallRecord& record) {
  const model::WaitKind waits = record.As<ring::HostWaitPayload>().kind;
  if ((record.flags & model::kHost) != 0 || waits == model::WaitKind::kOperation ||
      waits == model::WaitKind::kStore) {
    ++host_operations_;
    return;
  }
  RecordedProcess& process = processes_[record.process];
  const std::pair key(record.process, record.thread);
  switch (record.kind) {
    case RecordKind::kNone:
    case RecordKind::kText:
    case RecordKind::kLongText:
    case RecordKind::kEnqueue:
      return;
    case RecordKind::kEnd: {
      const auto open = open_.find(key);
      if (open == open_.end() || process.calls[open->second].call != record.call) return;
      RecordedCall& call = process.calls[open->second];
      call.end_order = record.order;
      call.result = record.As<ring::EndPayload>().result;
      open_.erase(open);
      return;
    }
    case RecordKind::kBegin:
    case RecordKind::kPoint:
      break;
  }
  switch (record.call) {
    case Call::kStreamCreate:
      process.streams[record.As<ring::StreamPayload>().stream] =
          record.As<ring::StreamPayload>().flags;
      return;
    case Call::kStreamDestroy:
    case Call::kPoll:
      return;
    case Call::kText:
      return;
    case Call::kGraphEndCapture:
    case Call::kGraphDestroy:
    case Call::kGraphClone:
    case Call::kGraphNest:
    case Call::kGraphInstantiate:
    case Call::kGraphExecDestroy:
      return OnGraphCall(record.process, record);
    default:
      break;
  }
  RecordedCall call;
  call.order = record.order;
  call.end_order = record.kind == RecordKind::kPoint ? record.order : 0;
  call.time_ns = record.time_ns;
  call.site = record.call_site;
  call.thread = record.thread;
  call.comm = model::CommOf(record);
  call.call_id = record.call_id;
  call.call = record.call;
  call.flags = record.flags;
  if (const auto* operation = std::get_if<ring::OperationPayload>(&record.payload)) {
    call.count = operation->count;
    call.stream = operation->stream;
    call.group = operation->group;
    call.root_or_peer = operation->root_or_peer;
    call.datatype = operation->datatype;
    call.reduce_op = operation->reduce_op;
    if (call.IsOperation()) {
      ++operations_;
      if (const uint64_t capture = model::CaptureOf(record); capture != 0)
        graphs_[record.process].captures[capture].push_back(record.order);
    }
  } else if (const auto* signal = std::get_if<ring::SignalPayload>(&record.payload)) {
    call.count = signal->count;
    call.event = model::SignalChannelOf(signal->index, signal->context);
    call.stream = signal->stream;
    call.group = signal->group;
    call.root_or_peer = signal->peer;
  } else if (const auto* init = std::get_if<ring::CommInitPayload>(&record.payload)) {
    call.parent = init->parent;
    call.color = init->color;
  } else if (const auto* group = std::get_if<ring::GroupPayload>(&record.payload)) {
    call.group = group->group;
  } else if (const auto* wait = std::get_if<ring::HostWaitPayload>(&record.payload)) {
    call.wait = wait->kind;
    call.stream = wait->stream;
    call.event = wait->event;
  } else if (const auto* work = std::get_if<ring::WorkPayload>(&record.payload)) {
    const bool ours = work->kind == model::WorkKind::kGraphMarkers ||
                      work->kind == model::WorkKind::kGraphProgress;
    if (ours) return;
    call.work = work->kind;
    call.stream = work->stream;
    call.event = work->event;
    if (work->kind == model::WorkKind::kGraphLaunch) {
      const auto& execs = graphs_[record.process].execs;
      const auto exec = execs.find(work->event);
      if (exec != execs.end()) call.content = exec->second;
    }
  }
  if (record.kind == RecordKind::kBegin) open_[key] = process.calls.size();
  process.calls.push_back(call);
}

void Recording::OnGraphCall(model::ProcessId id, const model::CallRecord& record) {
  const auto& call = record.As<ring::GraphPayload>();
  Graphs& graphs = graphs_[id];
  switch (record.call) {
    case Call::kGraphEndCapture: {
      const auto capture = graphs.captures.find(call.capture);
      if (capture == graphs.captures.end()) {
        graphs.graphs.erase(call.graph);  // a graph without operations
        return;
      }
      RecordedProcess& process = processes_[id];
      graphs.graphs[call.graph] = static_cast<int32_t>(process.graphs.size());
      process.graphs.push_back(std::move(capture->second));
      graphs.captures.erase(capture);
      return;
    }
    case Call::kGraphDestroy:
      graphs.graphs.erase(call.graph);
      return;
    case Call::kGraphClone:
    case Call::kGraphInstantiate: {
      auto& into = record.call == Call::kGraphClone ? graphs.graphs : graphs.execs;
      const auto from = graphs.graphs.find(call.graph);
      if (from == graphs.graphs.end()) {
        into.erase(call.made);
      } else {
        into[call.made] = from->second;
      }
      return;
    }
    case Call::kGraphExecDestroy:
      graphs.execs.erase(call.made);
      return;
    default:  // nested: the wait model loses track of its contents
      return;
  }
}

void Recording::Finish() {
  for (auto& [id, process] : processes_) {
    const auto before = [](const RecordedCall& a, const RecordedCall& b) {
      return a.order < b.order;
    };
    if (std::is_sorted(process.calls.begin(), process.calls.end(), before)) continue;
    std::sort(process.calls.begin(), process.calls.end(), before);
  }
}

}  // namespace gordian::replayer
