#include "analyzer/exporters/stream_order.h"

#include <algorithm>
#include <utility>

#include "analyzer/model/collective.h"

namespace gordian::exporters {
namespace {

using model::CallRecord;
using model::RecordKind;
using model::WaitKind;
using model::WorkKind;

// The last operation of each stream that something stands behind: those before it on its stream
// need not be told.
using Front = std::map<model::StreamId, uint64_t>;

void Join(const Front& from, Front* to) {
  for (const auto& [stream, order] : from) {
    uint64_t& last = (*to)[stream];
    last = std::max(last, order);
  }
}

// What a thread has waited for.
struct Waited {
  Front front;
  uint64_t times = 0;
  std::map<model::StreamId, uint64_t> told;  // `times` at the thread's last operation on it
};

}  // namespace

void StreamOrder::OnRecord(const CallRecord& record) {
  const auto add = [&](Step step, model::StreamId stream, uint64_t event) {
    facts_[record.process].push_back({record.order, step, record.thread, stream, event});
  };
  if (record.kind == RecordKind::kBegin && model::IsOperation(record.call)) {
    return add(Step::kOperation, record.As<ring::OperationPayload>().stream, 0);
  }
  if (record.kind == RecordKind::kEnd) {
    const auto waited = waiting_.find({record.process, record.thread});
    if (waited == waiting_.end()) return;
    if (record.As<ring::EndPayload>().result == 0)
      add(waited->second.step, waited->second.stream, waited->second.event);
    waiting_.erase(waited);
    return;
  }
  if (const auto* const work = std::get_if<ring::WorkPayload>(&record.payload)) {
    if ((record.flags & model::kCapturing) != 0) return;
    if (work->kind == WorkKind::kEventRecord) add(Step::kRecord, work->stream, work->event);
    if (work->kind == WorkKind::kEventForgotten) add(Step::kForget, 0, work->event);
    if (work->kind == WorkKind::kEventWait) add(Step::kWait, work->stream, work->event);
  }
  const auto* const wait = std::get_if<ring::HostWaitPayload>(&record.payload);
  if (wait == nullptr || record.kind != RecordKind::kBegin) return;
  Fact fact{.stream = wait->stream, .event = wait->event};
  if (wait->kind == WaitKind::kStream || wait->kind == WaitKind::kCopy) {
    fact.step = Step::kHostStream;
  } else if (wait->kind == WaitKind::kEvent) {
    fact.step = Step::kHostEvent;
  } else if (wait->kind == WaitKind::kDevice) {
    fact.step = Step::kHostAll;
  } else {
    return;
  }
  waiting_[{record.process, record.thread}] = fact;
}

StreamOrder::Edges StreamOrder::Of(model::ProcessId process,
                                   const std::set<uint64_t>& operations) const {
  Edges edges;
  const auto found = facts_.find(process);
  if (found == facts_.end()) return edges;
  std::vector<Fact> facts = found->second;  // of several threads, each in its order
  std::stable_sort(facts.begin(), facts.end(),
                   [](const Fact& a, const Fact& b) { return a.order < b.order; });
  std::map<model::StreamId, Front> streams;
  std::map<uint64_t, Front> events;
  std::map<model::ThreadId, Waited> threads;
  const auto waits = [&](model::ThreadId thread, const Front& front) {
    Join(front, &threads[thread].front);
    ++threads[thread].times;
  };
  for (const Fact& fact : facts) {
    switch (fact.step) {
      case Step::kOperation: {
        if (operations.count(fact.order) == 0) break;
        Front& stream = streams[fact.stream];
        Waited& thread = threads[fact.thread];
        uint64_t& told = thread.told[fact.stream];
        if (told != thread.times) Join(thread.front, &stream);
        told = thread.times;
        std::vector<uint64_t>& before = edges[fact.order];
        for (const auto& [other, order] : stream) before.push_back(order);
        std::sort(before.begin(), before.end());
        stream = {{fact.stream, fact.order}};
        break;
      }
      case Step::kRecord:
        events[fact.event] = streams[fact.stream];
        break;
      case Step::kForget:
        events.erase(fact.event);
        break;
      case Step::kWait:
        Join(events[fact.event], &streams[fact.stream]);
        break;
      case Step::kHostStream:
        waits(fact.thread, streams[fact.stream]);
        break;
      case Step::kHostEvent:
        waits(fact.thread, events[fact.event]);
        break;
      case Step::kHostAll:
        for (const auto& [number, stream] : streams) waits(fact.thread, stream);
        break;
    }
  }
  return edges;
}

}  // namespace gordian::exporters
