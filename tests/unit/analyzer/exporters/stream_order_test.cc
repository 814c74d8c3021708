#include "analyzer/exporters/stream_order.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/model/collective.h"

namespace gordian::exporters {
namespace {

using model::CallRecord;
using model::RecordKind;
using model::WaitKind;
using model::WorkKind;
using Sets = std::map<uint64_t, std::set<uint64_t>>;

// Records of one process, each with the next order.
class Program {
 public:
  explicit Program(model::ProcessId process = 1) : process_(process) {}

  // Returns its order.
  uint64_t Operation(model::StreamId stream, model::ThreadId thread = 1) {
    CallRecord record = Next(thread, RecordKind::kBegin);
    record.call = model::Call::kAllReduce;
    record.Make<ring::OperationPayload>().stream = stream;
    return Add(record);
  }
  void Work(WorkKind kind, model::StreamId stream, uint64_t event, uint8_t flags = 0) {
    CallRecord record = Next(1, RecordKind::kPoint);
    record.flags = flags;
    auto& work = record.Make<ring::WorkPayload>();
    work.kind = kind;
    work.stream = stream;
    work.event = event;
    Add(record);
  }
  void WaitBegin(WaitKind kind, model::StreamId stream, uint64_t event,
                 model::ThreadId thread = 1) {
    CallRecord record = Next(thread, RecordKind::kBegin);
    auto& wait = record.Make<ring::HostWaitPayload>();
    wait.kind = kind;
    wait.stream = stream;
    wait.event = event;
    Add(record);
  }
  void WaitEnd(model::ThreadId thread = 1, int32_t result = 0) {
    CallRecord record = Next(thread, RecordKind::kEnd);
    record.Make<ring::EndPayload>().result = result;
    Add(record);
  }
  void Wait(WaitKind kind, model::StreamId stream, uint64_t event, model::ThreadId thread = 1) {
    WaitBegin(kind, stream, event, thread);
    WaitEnd(thread);
  }

  StreamOrder::Edges Edges(const std::set<uint64_t>& operations) const {
    StreamOrder order;
    for (const CallRecord& record : records_) order.OnRecord(record);
    return order.Of(process_, operations);
  }
  // StreamOrder's answer about all operations.
  StreamOrder::Edges Edges() const { return Edges(operations_); }
  const std::set<uint64_t>& operations() const { return operations_; }
  std::vector<CallRecord>& records() { return records_; }

 private:
  CallRecord Next(model::ThreadId thread, RecordKind kind) {
    CallRecord record;
    record.process = process_;
    record.thread = thread;
    record.kind = kind;
    record.order = ++order_;
    return record;
  }
  uint64_t Add(const CallRecord& record) {
    records_.push_back(record);
    if (model::IsOperation(record.call)) operations_.insert(record.order);
    return record.order;
  }

  const model::ProcessId process_;
  uint64_t order_ = 0;
  std::set<uint64_t> operations_;
  std::vector<CallRecord> records_;
};

TEST(StreamOrder, AStreamRunsInOrder) {
  Program program;
  const uint64_t a = program.Operation(1), other = program.Operation(2), b = program.Operation(1),
                 c = program.Operation(1);
  EXPECT_EQ(program.Edges(), (StreamOrder::Edges{{a, {}}, {other, {}}, {b, {a}}, {c, {b}}}));
  // Without b, c follows a at once.
  EXPECT_EQ(program.Edges({a, c}), (StreamOrder::Edges{{a, {}}, {c, {a}}}));
}

TEST(StreamOrder, AStreamWaitsForAnEvent) {
  Program program;
  const uint64_t a = program.Operation(1);
  program.Work(WorkKind::kEventRecord, 1, 77);
  const uint64_t late = program.Operation(1);  // the event does not stand behind it
  const uint64_t before = program.Operation(2);
  program.Work(WorkKind::kEventWait, 2, 77);
  const uint64_t b = program.Operation(2), c = program.Operation(2);
  EXPECT_EQ(program.Edges(),
            (StreamOrder::Edges{{a, {}}, {late, {a}}, {before, {}}, {b, {a, before}}, {c, {b}}}));
}

TEST(StreamOrder, AnEventThatIsForgottenOrCapturedOrdersNothing) {
  Program forgotten, captured;
  uint64_t a = forgotten.Operation(1);
  forgotten.Work(WorkKind::kEventRecord, 1, 77);
  forgotten.Work(WorkKind::kEventForgotten, 0, 77);
  forgotten.Work(WorkKind::kEventWait, 2, 77);
  uint64_t b = forgotten.Operation(2);
  EXPECT_EQ(forgotten.Edges(), (StreamOrder::Edges{{a, {}}, {b, {}}}));
  a = captured.Operation(1);
  captured.Work(WorkKind::kEventRecord, 1, 77, model::kCapturing);
  captured.Work(WorkKind::kEventWait, 2, 77, model::kCapturing);
  b = captured.Operation(2);
  EXPECT_EQ(captured.Edges(), (StreamOrder::Edges{{a, {}}, {b, {}}}));
}

TEST(StreamOrder, AHostThatWaitedCallsBehind) {
  for (const WaitKind kind :
       {WaitKind::kStream, WaitKind::kCopy, WaitKind::kEvent, WaitKind::kDevice}) {
    Program program;
    const uint64_t a = program.Operation(1);
    program.Work(WorkKind::kEventRecord, 1, 77);
    program.Wait(kind, 1, 77);
    const uint64_t of_another = program.Operation(2, /*thread=*/2), b = program.Operation(3);
    EXPECT_EQ(program.Edges(), (StreamOrder::Edges{{a, {}}, {of_another, {}}, {b, {a}}}))
        << static_cast<int>(kind);
  }
}

TEST(StreamOrder, AWaitThatFailedOrHasNotEndedOrdersNothing) {
  Program failed, open, free;
  for (Program* const program : {&failed, &open, &free}) program->Operation(1);
  failed.WaitBegin(WaitKind::kStream, 1, 0);
  failed.WaitEnd(1, /*result=*/700);
  open.WaitBegin(WaitKind::kStream, 1, 0);
  free.Wait(WaitKind::kFree, 1, 0);  // of which no contract says that it waits
  for (Program* const program : {&failed, &open, &free}) {
    const uint64_t b = program->Operation(2, program == &open ? 2 : 1);
    EXPECT_TRUE(program->Edges().at(b).empty());
  }
}

TEST(StreamOrder, ProcessesAreApartAndRecordsOfThreadsComeInAnyOrder) {
  Program one(1), two(2);
  const uint64_t a = one.Operation(1, 1), b = one.Operation(1, 2);
  two.Operation(1);
  StreamOrder order;
  order.OnRecord(one.records()[1]);
  order.OnRecord(two.records()[0]);
  order.OnRecord(one.records()[0]);
  EXPECT_EQ(order.Of(1, one.operations()), (StreamOrder::Edges{{a, {}}, {b, {a}}}));
  EXPECT_EQ(order.Of(2, two.operations()).begin()->second, std::vector<uint64_t>{});
  EXPECT_TRUE(order.Of(3, {1}).empty());
}

// By the definition, with whole sets: what each stream, event and thread stands behind.
Sets Naive(const std::vector<CallRecord>& records, const std::set<uint64_t>& operations) {
  Sets streams, events, threads, behind;
  std::map<model::ThreadId, const ring::HostWaitPayload*> waiting;
  const auto add = [](const std::set<uint64_t>& from, std::set<uint64_t>* to) {
    to->insert(from.begin(), from.end());
  };
  for (const CallRecord& record : records) {
    if (operations.contains(record.order)) {
      std::set<uint64_t>& stream = streams[record.As<ring::OperationPayload>().stream];
      add(threads[record.thread], &stream);
      behind[record.order] = stream;
      stream.insert(record.order);
    } else if (const auto* work = std::get_if<ring::WorkPayload>(&record.payload)) {
      if (work->kind == WorkKind::kEventRecord) events[work->event] = streams[work->stream];
      if (work->kind == WorkKind::kEventForgotten) events[work->event] = {};
      if (work->kind == WorkKind::kEventWait) add(events[work->event], &streams[work->stream]);
    } else if (const auto* wait = std::get_if<ring::HostWaitPayload>(&record.payload)) {
      waiting[record.thread] = wait;
    } else if (record.kind == RecordKind::kEnd && waiting[record.thread] != nullptr) {
      const ring::HostWaitPayload& ended = *std::exchange(waiting[record.thread], nullptr);
      if (ended.kind == WaitKind::kStream) add(streams[ended.stream], &threads[record.thread]);
      if (ended.kind == WaitKind::kEvent) add(events[ended.event], &threads[record.thread]);
      for (const auto& [number, stream] : streams)
        if (ended.kind == WaitKind::kDevice) add(stream, &threads[record.thread]);
    }
  }
  return behind;
}

// All that an operation follows, by its edges.
Sets Closed(const StreamOrder::Edges& edges) {
  Sets behind;
  for (const auto& [operation, before] : edges) {  // ascending, and edges lead back
    std::set<uint64_t>& all = behind[operation];
    for (const uint64_t one : before) {
      EXPECT_LT(one, operation);
      all.insert(one);
      all.insert(behind[one].begin(), behind[one].end());
    }
  }
  return behind;
}

TEST(StreamOrder, RandomProgramsAgreeWithWholeSets) {
  const char* const wanted = getenv("GORDIAN_TEST_PROGRAMS");
  const int programs = wanted != nullptr ? atoi(wanted) : 400;
  size_t edges_seen = 0;
  for (int seed = 1; seed <= programs; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    Program program;
    for (int i = 0; i < 60; ++i) {
      const uint32_t stream = 1 + pick(4), event = 1 + pick(3), thread = 1 + pick(3);
      switch (pick(8)) {
        case 0:
          program.Work(WorkKind::kEventRecord, stream, event);
          break;
        case 1:
          program.Work(WorkKind::kEventWait, stream, event);
          break;
        case 2:
          program.Wait(WaitKind::kStream, stream, 0, thread);
          break;
        case 3:
          program.Wait(WaitKind::kEvent, 0, event, thread);
          break;
        case 4:
          if (pick(4) == 0) program.Work(WorkKind::kEventForgotten, 0, event);
          if (pick(4) == 0) program.Wait(WaitKind::kDevice, 0, 0, thread);
          break;
        default:
          program.Operation(stream, thread);
      }
    }
    std::set<uint64_t> some;  // a part of them, as --last leaves
    for (const uint64_t operation : program.operations())
      if (pick(5) > 0) some.insert(operation);
    for (const std::set<uint64_t>& operations : {program.operations(), some}) {
      const StreamOrder::Edges edges = program.Edges(operations);
      EXPECT_EQ(Closed(edges), Naive(program.records(), operations)) << "seed " << seed;
      for (const auto& [operation, before] : edges) edges_seen += before.size();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(edges_seen, 0u);
}

}  // namespace
}  // namespace gordian::exporters
