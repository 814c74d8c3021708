// Events inside captured graphs: for which launches they count, and when they say nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"

namespace gordian::model {
namespace {

constexpr ProcessId kProcess = 1;
constexpr ThreadId kThread = 1;
constexpr StreamId kStream = 4;
constexpr StreamId kCaptured = 5;
constexpr uint64_t kCapture = 77;
constexpr uint64_t kGraph = 0x1000;
constexpr uint64_t kExec = 0x2000;

// One rank of two with a communicator, and a graph of three all-reduces with a marker between each
// two: 1 a 2 b 3 c 4.
class GraphProgress : public ::testing::Test {
 protected:
  GraphProgress() {
    ProcessInfo info;
    info.process = kProcess;
    graph_.Start(info);
    CallRecord init = Next(RecordKind::kBegin, Call::kCommInit);
    init.payload = ring::CommInitPayload{.comm = 1, .nranks = 2, .rank = 0, .uid = 9};
    graph_.Record(init);
    CallRecord made = Next(RecordKind::kEnd, Call::kCommInit);
    made.payload = ring::EndPayload{.comm = 1, .nranks = 2, .rank = 0, .device = -1};
    graph_.Record(made);
    for (uint32_t i = 1; i <= 3; ++i) {
      Operation();
      Markers(i, i + 1);
    }
    CallRecord end = Next(RecordKind::kPoint, Call::kGraphEndCapture);
    end.payload = ring::GraphPayload{
        .what = ring::GraphCall::kEndCapture, .graph = kGraph, .capture = kCapture};
    graph_.Record(end);
    Instantiate(kGraph, kExec);
  }

  CallRecord Next(RecordKind kind, Call call) {
    CallRecord record;
    record.process = kProcess;
    record.thread = kThread;
    record.kind = kind;
    record.call = call;
    record.order = ++order_;
    record.time_ns = 1000 * order_;
    return record;
  }
  void Operation(uint32_t group = 0) {
    CallRecord begin = Next(RecordKind::kBegin, Call::kAllReduce);
    begin.flags = kCapturing | (group != 0 ? kInGroup : 0);
    begin.payload = ring::OperationPayload{.comm = 1,
                                           .stream = kCaptured,
                                           .count = 8,
                                           .sequence = kCapture,
                                           .group = static_cast<uint16_t>(group)};
    graph_.Record(begin);
    CallRecord end = Next(RecordKind::kEnd, Call::kAllReduce);
    end.flags = begin.flags;
    graph_.Record(end);
  }
  void Markers(uint32_t front, uint32_t behind) {
    CallRecord record = Next(RecordKind::kPoint, Call::kStreamWork);
    record.payload = ring::WorkPayload{.stream = kCaptured,
                                       .kind = WorkKind::kGraphMarkers,
                                       .ordinal = kCapture,
                                       .event = uint64_t{behind} << 32 | front};
    graph_.Record(record);
  }
  void Instantiate(uint64_t graph, uint64_t exec) {
    CallRecord record = Next(RecordKind::kPoint, Call::kGraphInstantiate);
    record.payload =
        ring::GraphPayload{.what = ring::GraphCall::kInstantiate, .graph = graph, .made = exec};
    graph_.Record(record);
  }
  void Launch(uint64_t exec = kExec) {
    CallRecord record = Next(RecordKind::kPoint, Call::kStreamWork);
    record.payload = ring::WorkPayload{
        .stream = kStream, .kind = WorkKind::kGraphLaunch, .ordinal = ++launches_, .event = exec};
    graph_.Record(record);
  }
  // Markers that were found done when the events were looked at, after record `after`.
  void Done(const std::vector<uint32_t>& markers, uint64_t after) {
    CallRecord record = Next(RecordKind::kPoint, Call::kStreamWork);
    record.thread = 2;
    uint64_t done = 0;
    for (uint32_t marker : markers) done |= uint64_t{1} << (marker - 1);
    record.payload = ring::WorkPayload{
        .stream = 1, .kind = WorkKind::kGraphProgress, .ordinal = after, .event = done};
    graph_.Record(record);
  }
  // Sequence numbers of the operations that are not done, with a + where the event in front is.
  std::vector<std::string> Open() const {
    std::vector<std::string> open;
    for (const auto& [id, launch] : graph_.launches()) {
      const bool reached = std::all_of(launch.graph_markers.begin(), launch.graph_markers.end(),
                                       [](const GraphMarkerPair& pair) { return pair.reached; });
      open.push_back(std::to_string(launch.parts.front().ref.sequence) + (reached ? "+" : ""));
    }
    std::sort(open.begin(), open.end());
    return open;
  }
  using Strings = std::vector<std::string>;

  Matcher matcher_;
  ExecutionGraph graph_{&matcher_};
  uint64_t order_ = 0;
  uint64_t launches_ = 0;
};

TEST_F(GraphProgress, TellsWhichOperationALaunchIsIn) {
  Launch();
  EXPECT_EQ(Open(), (Strings{"0", "1", "2"}));
  Done({1, 2}, order_);
  EXPECT_EQ(Open(), (Strings{"1+", "2"}));
  Done({3}, order_);
  EXPECT_EQ(Open(), (Strings{"2+"}));
  Done({4}, order_);
  EXPECT_EQ(Open(), Strings{});
}

TEST_F(GraphProgress, WhatWasSeenBeforeTheLaunchIsOfAnotherOne) {
  const uint64_t before = order_;
  Launch();
  Done({1, 2, 3, 4}, before);
  EXPECT_EQ(Open(), (Strings{"0", "1", "2"}));
}

TEST_F(GraphProgress, CountsForAllLaunchesOfOneExecutableGraph) {
  Launch();
  const uint64_t first = order_;
  Launch();
  Done({1, 2}, first);
  EXPECT_EQ(Open(), (Strings{"1+", "2", "3", "4", "5"})) << "the second was not launched yet";
  Done({1, 2}, order_);
  EXPECT_EQ(Open(), (Strings{"1+", "2", "4+", "5"}));
}

TEST_F(GraphProgress, SaysNothingWhenTwoCouldRunAtOnce) {
  Instantiate(kGraph, kExec + 1);
  Launch();
  Done({1, 2, 3, 4}, order_);
  EXPECT_EQ(Open(), (Strings{"0", "1", "2"}));
  // The other one is no more, and never ran.
  CallRecord destroy = Next(RecordKind::kPoint, Call::kGraphExecDestroy);
  destroy.payload = ring::GraphPayload{.what = ring::GraphCall::kExecDestroy, .made = kExec + 1};
  graph_.Record(destroy);
  Done({1, 2}, order_);
  EXPECT_EQ(Open(), (Strings{"1+", "2"}));
}

TEST_F(GraphProgress, SaysNothingWhenOneThatIsNoMoreMayStillRun) {
  Instantiate(kGraph, kExec + 1);
  Launch(kExec + 1);
  CallRecord destroy = Next(RecordKind::kPoint, Call::kGraphExecDestroy);
  destroy.payload = ring::GraphPayload{.what = ring::GraphCall::kExecDestroy, .made = kExec + 1};
  graph_.Record(destroy);
  Launch();
  Done({1, 2, 3, 4}, order_);
  EXPECT_EQ(Open(), (Strings{"0", "1", "2", "3", "4", "5"}));
}

TEST_F(GraphProgress, SaysNothingOfAClone) {
  CallRecord clone = Next(RecordKind::kPoint, Call::kGraphClone);
  clone.payload =
      ring::GraphPayload{.what = ring::GraphCall::kClone, .graph = kGraph, .made = kGraph + 1};
  graph_.Record(clone);
  Launch();
  Done({1, 2}, order_);
  EXPECT_EQ(Open(), (Strings{"1+", "2"})) << "a clone that is not executable does not run";
  Instantiate(kGraph + 1, kExec + 1);
  Done({3, 4}, order_);
  EXPECT_EQ(Open(), (Strings{"1+", "2"}));
}

TEST_F(GraphProgress, SaysNothingWhenRecordsWereLost) {
  Launch();
  Round round;
  ProcessState state;
  state.process = kProcess;
  state.lost_records = 1;
  round.processes.push_back(state);
  graph_.TakeRound(round);
  Done({1, 2, 3, 4}, order_);
  EXPECT_EQ(Open(), (Strings{"0", "1", "2"}));
}

TEST_F(GraphProgress, AGroupLiesBetweenOnePair) {
  // Captured into another graph: two operations in a group, and one on its own before them.
  Operation();
  Markers(11, 12);
  Operation(/*group=*/3);
  Operation(/*group=*/3);
  Markers(12, 13);
  CallRecord end = Next(RecordKind::kPoint, Call::kGraphEndCapture);
  end.payload = ring::GraphPayload{
      .what = ring::GraphCall::kEndCapture, .graph = kGraph + 8, .capture = kCapture};
  graph_.Record(end);
  Instantiate(kGraph + 8, kExec + 8);
  Launch(kExec + 8);
  EXPECT_EQ(Open(), (Strings{"0", "1"})) << "a group on one communicator is one launch";
  Done({11, 12}, order_);
  EXPECT_EQ(Open(), (Strings{"1+"}));
  Done({13}, order_);
  EXPECT_EQ(Open(), Strings{});
}

}  // namespace
}  // namespace gordian::model
