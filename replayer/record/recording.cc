#include "replayer/record/recording.h"

#include <algorithm>

namespace gordian::replayer {

using model::Call;
using model::RecordKind;

const RecordedCall* RecordedProcess::Find(uint64_t order) const {
  const auto found = std::lower_bound(
      calls.begin(), calls.end(), order,
      [](const RecordedCall& call, uint64_t wanted) { return call.order < wanted; });
  return found == calls.end() || found->order != order ? nullptr : &*found;
}

void Recording::OnRecord(const model::CallRecord& record) {
  RecordedProcess& process = processes_[record.process];
  const std::pair key(record.process, record.thread);
  switch (record.kind) {
    case RecordKind::kText:
    case RecordKind::kEnqueue:
      return;
    case RecordKind::kEnd: {
      const auto open = open_.find(key);
      if (open == open_.end() || process.calls[open->second].call != record.call) return;
      RecordedCall& call = process.calls[open->second];
      call.end_order = record.order;
      call.result = record.result;
      open_.erase(open);
      return;
    }
    case RecordKind::kBegin:
    case RecordKind::kPoint:
      break;
  }
  switch (record.call) {
    case Call::kStreamCreate:
      process.streams[record.stream] = record.stream_flags;
      return;
    case Call::kStreamDestroy:
    case Call::kPoll:
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
  const bool ours = record.work == model::WorkKind::kGraphMarkers ||
                    record.work == model::WorkKind::kGraphProgress;
  if (ours) return;
  RecordedCall call;
  call.order = record.order;
  call.end_order = record.kind == RecordKind::kPoint ? record.order : 0;
  call.site = record.call_site;
  call.count = record.count;
  call.event = record.event;
  call.thread = record.thread;
  call.comm = record.comm;
  call.parent = record.parent;
  call.stream = record.stream;
  call.group = record.group;
  call.root_or_peer = record.root_or_peer;
  call.color = record.color;
  call.call_id = record.call_id;
  call.call = record.call;
  call.work = record.work;
  call.wait = record.wait;
  call.flags = record.flags;
  call.datatype = record.datatype;
  call.reduce_op = record.reduce_op;
  if (call.IsOperation()) {
    ++operations_;
    if (record.capture != 0)
      graphs_[record.process].captures[record.capture].push_back(record.order);
  }
  if (record.work == model::WorkKind::kGraphLaunch) {
    const auto& execs = graphs_[record.process].execs;
    const auto exec = execs.find(record.event);
    if (exec != execs.end()) call.content = exec->second;
  }
  if (record.kind == RecordKind::kBegin) open_[key] = process.calls.size();
  process.calls.push_back(call);
}

void Recording::OnGraphCall(model::ProcessId id, const model::CallRecord& record) {
  Graphs& graphs = graphs_[id];
  switch (record.call) {
    case Call::kGraphEndCapture: {
      const auto capture = graphs.captures.find(record.capture);
      if (capture == graphs.captures.end()) {
        graphs.graphs.erase(record.graph);  // a graph without operations
        return;
      }
      RecordedProcess& process = processes_[id];
      graphs.graphs[record.graph] = static_cast<int32_t>(process.graphs.size());
      process.graphs.push_back(std::move(capture->second));
      graphs.captures.erase(capture);
      return;
    }
    case Call::kGraphDestroy:
      graphs.graphs.erase(record.graph);
      return;
    case Call::kGraphClone:
    case Call::kGraphInstantiate: {
      auto& into = record.call == Call::kGraphClone ? graphs.graphs : graphs.execs;
      const auto from = graphs.graphs.find(record.graph);
      if (from == graphs.graphs.end()) {
        into.erase(record.event);
      } else {
        into[record.event] = from->second;
      }
      return;
    }
    case Call::kGraphExecDestroy:
      graphs.execs.erase(record.event);
      return;
    default:  // nested: the wait model loses track of its contents
      return;
  }
}

void Recording::Finish() {
  for (auto& [id, process] : processes_) {
    std::sort(process.calls.begin(), process.calls.end(),
              [](const RecordedCall& a, const RecordedCall& b) { return a.order < b.order; });
  }
}

}  // namespace gordian::replayer
