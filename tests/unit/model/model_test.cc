// The parts of the model on their own: the decision, matching, merging, retirement, the drawing.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/facts/record_merger.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/decider.h"
#include "analyzer/model/waits/wait_drawing.h"
#include "analyzer/model/waits/wait_for_graph.h"
#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model {
namespace {

using Kind = AndOrGraph::Kind;

TEST(Decider, AndNeedsAllOrNeedsOne) {
  AndOrGraph graph;
  const uint32_t can = graph.AddNode(Kind::kCan), cannot = graph.AddNode(Kind::kCannot);
  const uint32_t both = graph.AddNode(Kind::kAnd), either = graph.AddNode(Kind::kOr);
  const uint32_t free_and = graph.AddNode(Kind::kAnd), empty_or = graph.AddNode(Kind::kOr);
  for (uint32_t to : {can, cannot}) {
    graph.AddEdge(both, to);
    graph.AddEdge(either, to);
  }
  const std::vector<bool> result = graph.Decide();
  EXPECT_EQ(result, (std::vector<bool>{true, false, false, true, true, false}));
  (void)free_and;
  (void)empty_or;
}

TEST(Decider, ACycleWaitsForItselfUnlessAnOrLeavesIt) {
  for (const bool way_out : {false, true}) {
    AndOrGraph graph;
    const uint32_t a = graph.AddNode(Kind::kAnd), b = graph.AddNode(Kind::kOr);
    graph.AddEdge(a, b);
    graph.AddEdge(b, a);
    if (way_out) graph.AddEdge(b, graph.AddNode(Kind::kCan));
    EXPECT_EQ(graph.Decide()[a], way_out);
    EXPECT_EQ(graph.Decide()[b], way_out);
  }
}

// The counters against the definition, applied until nothing changes.
TEST(Decider, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    AndOrGraph graph;
    const uint32_t n = 2 + random() % 12;
    std::vector<Kind> kinds;
    std::vector<std::vector<uint32_t>> out(n);
    for (uint32_t i = 0; i < n; ++i) {
      kinds.push_back(static_cast<Kind>(random() % 10 < 8 ? random() % 2 : 2 + random() % 2));
      graph.AddNode(kinds.back());
    }
    for (uint32_t e = random() % (3 * n); e > 0; --e) {
      const uint32_t from = random() % n, to = random() % n;
      out[from].push_back(to);
      graph.AddEdge(from, to);
    }
    std::vector<bool> can(n, false);
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t i = 0; i < n; ++i) {
        const auto reached = [&](uint32_t to) { return can[to]; };
        const bool now =
            kinds[i] == Kind::kCan ||
            (kinds[i] == Kind::kAnd && std::all_of(out[i].begin(), out[i].end(), reached)) ||
            (kinds[i] == Kind::kOr && std::any_of(out[i].begin(), out[i].end(), reached));
        changed |= now && !can[i];
        can[i] = can[i] || now;
      }
    }
    ASSERT_EQ(graph.Decide(), can);
  }
}

TEST(RecordMerger, RestoresTheOrderOfTheProcess) {
  RecordMerger merger;
  std::vector<uint64_t> seen;
  const auto sink = [&](const CallRecord& r) { seen.push_back(r.order); };
  for (uint64_t order : {1, 2, 5, 6, 3}) {
    CallRecord record;
    record.order = order;
    merger.Add(record, sink);
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 2, 3}));
  merger.AtRound(false, sink);  // perhaps still on its way
  EXPECT_TRUE(merger.incomplete());
  EXPECT_EQ(merger.lost(), 0u);
  merger.AtRound(false, sink);
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 2, 3, 5, 6}));
  EXPECT_EQ(merger.lost(), 1u);
  EXPECT_FALSE(merger.incomplete());
}

TEST(Matcher, ComparesByTheOperationsOwnRule) {
  OpSignature a{Call::kAllReduce, 7, 0, -1, 10}, b = a;
  EXPECT_EQ(Difference(a, b), 0u);
  b.reduce_op = 2;
  EXPECT_EQ(Difference(a, b), static_cast<uint32_t>(kOperatorDiffers));
  b.reduce_op = 254;  // an operator made by the user has another number at every rank
  EXPECT_EQ(Difference(a, b), 0u);
  OpSignature g{Call::kAllGather, 7, 0, -1, 10}, h{Call::kAllGather, 7, 2, 3, 10};
  EXPECT_EQ(Difference(g, h), 0u);  // neither has an operator or a root
  OpSignature x{Call::kBroadcast, 7, 255, 0, 10}, y{Call::kBroadcast, 7, 255, 1, 10};
  EXPECT_EQ(Difference(x, y), static_cast<uint32_t>(kRootDiffers));
  EXPECT_EQ(Difference(a, g), static_cast<uint32_t>(kKindDiffers));
  // The same bytes under another type arrive intact.
  EXPECT_EQ(TransferDifference({Call::kSend, 7, 255, -1, 10}, {Call::kRecv, 0, 255, -1, 40}), 0u);
  EXPECT_NE(TransferDifference({Call::kSend, 7, 255, -1, 10}, {Call::kRecv, 7, 255, -1, 11}), 0u);
}

TEST(Matcher, ARefusedCallNeverHappened) {
  Matcher matcher;
  const int comm = matcher.Comm(1, 0, 2);
  const PartRef first{PartKind::kCollective, comm, 0, -1, 0},
      second{PartKind::kCollective, comm, 1, -1, 0};
  MemberSlot slot;
  slot.state = SlotState::kCalled;
  slot.signature = {Call::kAllReduce, 7, 0, -1, 10};
  matcher.Post(first, slot);
  matcher.Accept(first, 5);
  slot.signature.count = 11;
  matcher.Post(second, slot);
  EXPECT_TRUE(matcher.mismatches().empty());  // not accepted yet
  matcher.Withdraw(second);
  slot.signature.count = 10;
  matcher.Post(second, slot);
  matcher.Accept(second, 6);
  EXPECT_TRUE(matcher.mismatches().empty());
  matcher.Done(first);
  matcher.Done(second);
  EXPECT_EQ(matcher.Held(), 0u);
}

TEST(CheckCatalogue, IdsAreUniqueAndSpeak) {
  size_t count = 0;
  const Check* checks = AllChecks(&count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(&CheckById(checks[i].id), &checks[i]);
    EXPECT_NE(std::string(checks[i].meaning), "");
    EXPECT_STRNE(Name(checks[i].verdict), "");
  }
  EXPECT_GT(Severity(VerdictKind::kInconclusive), Severity(VerdictKind::kHealthy));
  EXPECT_GT(Severity(VerdictKind::kInconclusive), Severity(VerdictKind::kFinished));
}

// A hundred thousand steps of training: what is held follows what is unfinished.
TEST(Retirement, MemoryDoesNotGrowWithTheJob) {
  Matcher matcher;
  ExecutionGraph graph(&matcher);
  constexpr int kRanks = 4;
  uint64_t order[kRanks] = {}, time = 1;
  auto record = [&](int rank, RecordKind kind, Call call) {
    CallRecord r;
    r.process = static_cast<ProcessId>(rank + 1);
    r.thread = 1;
    r.kind = kind;
    r.call = call;
    r.order = ++order[rank];
    r.time_ns = ++time;
    return r;
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(rank + 1);
    graph.Start(info);
    CallRecord init = record(rank, RecordKind::kBegin, Call::kCommInit);
    init.payload = ring::CommInitPayload{.comm = 1, .nranks = kRanks, .rank = rank, .uid = 5};
    graph.Record(init);
    CallRecord made = record(rank, RecordKind::kEnd, Call::kCommInit);
    made.payload = ring::EndPayload{.comm = 1, .nranks = kRanks, .rank = rank, .device = -1};
    graph.Record(made);
    for (StreamId stream : {1u, 2u}) {
      CallRecord create = record(rank, RecordKind::kPoint, Call::kStreamCreate);
      create.payload = ring::StreamPayload{.stream = stream, .device = 0};
      graph.Record(create);
    }
  }
  size_t most = 0;
  for (uint64_t step = 0; step < 100000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      // A kernel on stream 1, an event that stream 2 waits for, an all-reduce there, and back.
      auto work = [&](WorkKind kind, StreamId stream, uint64_t ordinal, uint64_t event) {
        CallRecord r = record(rank, RecordKind::kPoint, Call::kStreamWork);
        r.payload =
            ring::WorkPayload{.stream = stream, .kind = kind, .ordinal = ordinal, .event = event};
        graph.Record(r);
      };
      work(WorkKind::kKernels, 1, 2 * step + 1, 0);
      work(WorkKind::kEventRecord, 1, 2 * step + 1, 1000 + step);  // never the same event twice
      work(WorkKind::kEventWait, 2, 2 * step + 1, 1000 + step);
      CallRecord begin = record(rank, RecordKind::kBegin, Call::kAllReduce);
      begin.payload = ring::OperationPayload{.comm = 1, .stream = 2, .count = 8, .sequence = step};
      graph.Record(begin);
      CallRecord end = record(rank, RecordKind::kEnd, Call::kAllReduce);
      end.payload = ring::EndPayload{.stream = 2, .ordinal = 2 * step + 2};
      graph.Record(end);
      work(WorkKind::kEventRecord, 2, 2 * step + 2, 7);
      work(WorkKind::kEventWait, 1, 2 * step + 2, 7);
    }
    if (step % 100 != 99) continue;
    Round round;
    round.round = step;
    round.begin_ns = round.end_ns = ++time;
    for (int rank = 0; rank < kRanks; ++rank) {
      ProcessState state;
      state.process = static_cast<ProcessId>(rank + 1);
      state.answered = true;
      StreamState stream;
      stream.stream = 2;
      stream.enqueued = 2 * step + 2;
      stream.done = 2 * step - 8;  // a few steps behind
      state.streams.push_back(stream);
      round.processes.push_back(state);
    }
    graph.TakeRound(round);
    const WaitForGraph waits(graph, matcher, {}, time);
    most = std::max(most, graph.Held() + matcher.Held() + waits.nodes().size());
  }
  EXPECT_LT(most, 20000u);
}

// An event that was destroyed may come again under the same handle: what the old one stood behind
// is not what a wait for the new one covers.
TEST(ExecutionGraph, AnEventThatIsForgottenStandsBehindNothing) {
  for (const bool forgotten : {false, true}) {
    Matcher matcher;
    ExecutionGraph graph(&matcher);
    ProcessInfo info;
    info.process = 1;
    graph.Start(info);
    uint64_t order = 0;
    const auto record = [&](RecordKind kind, Call call) {
      CallRecord r;
      r.process = 1;
      r.thread = 1;
      r.kind = kind;
      r.call = call;
      r.order = ++order;
      return r;
    };
    const auto work = [&](WorkKind kind, StreamId stream, uint64_t ordinal) {
      CallRecord r = record(RecordKind::kPoint, Call::kStreamWork);
      r.payload = ring::WorkPayload{.stream = stream,
                                    .kind = kind,
                                    .ordinal = ordinal,
                                    .event = kind == WorkKind::kKernels ? 0u : 7u};
      graph.Record(r);
    };
    work(WorkKind::kKernels, 1, 1);
    work(WorkKind::kEventRecord, 1, 1);
    if (forgotten) work(WorkKind::kEventForgotten, 0, 0);
    CallRecord wait = record(RecordKind::kBegin, Call::kHostWait);
    wait.payload = ring::HostWaitPayload{.kind = WaitKind::kEvent, .event = 7};
    graph.Record(wait);
    const auto& process = graph.processes().at(1);
    EXPECT_FALSE(process.streams.contains(0));  // it names no stream
    ASSERT_TRUE(process.threads.at(1).open.has_value());
    EXPECT_EQ(process.threads.at(1).open->covered.size(), forgotten ? 0u : 1u);
  }
}

// Two threads use one stream: the later place on it may be told first, and a round may be between.
TEST(ExecutionGraph, KernelsBehindAnOperationThatIsNotToldYetProveNothing) {
  Matcher matcher;
  ExecutionGraph graph(&matcher);
  uint64_t order = 0;
  auto record = [&](ThreadId thread, RecordKind kind, Call call) {
    CallRecord r;
    r.process = 1;
    r.thread = thread;
    r.kind = kind;
    r.call = call;
    r.order = ++order;
    return r;
  };
  CallRecord init = record(1, RecordKind::kBegin, Call::kCommInit);
  init.payload = ring::CommInitPayload{.comm = 1, .nranks = 2, .rank = 0, .uid = 5};
  graph.Record(init);
  CallRecord begin = record(1, RecordKind::kBegin, Call::kAllReduce);
  begin.payload = ring::OperationPayload{.comm = 1, .stream = 1, .count = 8};
  graph.Record(begin);
  CallRecord kernels = record(2, RecordKind::kPoint, Call::kStreamWork);
  kernels.payload = ring::WorkPayload{.stream = 1, .kind = WorkKind::kKernels, .ordinal = 2};
  graph.Record(kernels);
  Round round;
  round.processes.emplace_back().process = 1;
  graph.TakeRound(round);
  CallRecord end = record(1, RecordKind::kEnd, Call::kAllReduce);
  end.payload = ring::EndPayload{.stream = 1, .ordinal = 1};
  graph.Record(end);
  ASSERT_EQ(graph.launches().size(), 1u);
  EXPECT_NE(ExecutionGraph::ItemAt(*graph.Find(1), {1, 2}), nullptr);
  round.processes[0].streams.push_back({1, 2, 2, 1});
  graph.TakeRound(round);
  EXPECT_TRUE(graph.launches().empty());
}

// NCCL refuses a rank beyond the communicator's size, but the call has begun by then: it must name
// no member, in any array that is indexed by rank.
TEST(Communicators, ARankBeyondTheSizeIsNoMember) {
  Matcher matcher;
  ExecutionGraph graph(&matcher);
  CallRecord init;
  init.process = init.thread = 1;
  init.kind = RecordKind::kBegin;
  init.call = Call::kCommInit;
  init.order = 1;
  init.payload = ring::CommInitPayload{.comm = 1, .nranks = 2, .rank = 5, .uid = 5};
  graph.Record(init);
  CallRecord begin = init;
  begin.call = Call::kAllReduce;
  begin.order = 2;
  begin.payload = ring::OperationPayload{.comm = 1, .stream = 1, .count = 8};
  graph.Record(begin);
  Round round;
  ProcessState& state = round.processes.emplace_back();
  state.process = 1;
  state.comms.push_back({.comm = 1, .state = CommState::kAborted, .next_sequence = 3});
  graph.TakeRound(&round);
  ASSERT_NE(graph.Find(1), nullptr);
  const auto local = graph.Find(1)->comms.find(1);
  ASSERT_NE(local, graph.Find(1)->comms.end());
  EXPECT_EQ(local->second.rank, -1);
  ASSERT_EQ(matcher.comms().size(), 1u);
  for (const CommMember& member : matcher.comms()[0].members) {
    EXPECT_FALSE(member.known);
    EXPECT_FALSE(member.aborted);
  }
}

// A peer on a node that nobody watches never tells that it received.
TEST(Retirement, TransfersWithAPeerThatIsNotSeenAreLetGo) {
  Matcher matcher;
  const int comm = matcher.Comm(1, 0, 2);
  matcher.SetMember(comm, 0, 1, 1, 0);
  MemberSlot slot;
  slot.state = SlotState::kCalled;
  for (uint64_t i = 0; i < 20000; ++i) {
    const PartRef send{PartKind::kSend, comm, 0, 1, i};
    matcher.Post(send, slot);
    matcher.Done(send);
  }
  EXPECT_LT(matcher.Held(), 5000u);
}

TEST(WaitDrawing, DrawsWhatIsStuck) {
  using namespace testing;  // NOLINT
  std::vector<SimComm> comms(2);
  comms[0].members = comms[1].members = {0, 1};
  comms[0].name = "dp";
  comms[1].name = "tp";
  SimJob job(comms, {{Init(0), Init(1), AllReduce(0), AllReduce(1), StreamSync()},
                     {Init(0), Init(1), AllReduce(1), AllReduce(0), StreamSync()}});
  job.Run();
  Matcher matcher;
  ExecutionGraph graph(&matcher);
  for (const CallRecord& record : job.log) graph.Record(record);
  graph.TakeRound(job.MakeRound());
  const WaitForGraph waits(graph, matcher, {}, job.now());
  const WaitDrawing drawing = DrawWaits(waits, Names(graph, matcher), waits.Decide(~LeafMask{0}));
  const std::string dot = DotOf(drawing);
  EXPECT_EQ(dot.rfind("digraph", 0), 0u) << dot;
  EXPECT_NE(dot.find("rank 0 ends AllReduce #0 on dp"), std::string::npos) << dot;
  EXPECT_NE(dot.find("all started #0 on tp"), std::string::npos) << dot;
  EXPECT_NE(dot.find("started_collective"), std::string::npos) << dot;
  EXPECT_EQ(dot.find("done\""), std::string::npos) << dot;  // nothing that can go on
  // The witness is a cycle: each of its nodes has one arrow out and one in.
  const WaitDrawing witness = WitnessOf(drawing);
  ASSERT_GT(witness.nodes.size(), 1u);
  ASSERT_LT(witness.nodes.size(), drawing.nodes.size());
  ASSERT_EQ(witness.arcs.size(), witness.nodes.size());
  std::set<size_t> from, to;
  for (const WaitDrawing::Arc& arc : witness.arcs) {
    from.insert(arc.from);
    to.insert(arc.to);
  }
  EXPECT_EQ(from.size(), witness.nodes.size());
  EXPECT_EQ(to.size(), witness.nodes.size());
  // A rank without arrows around it; and what is one arrow away.
  const WaitDrawing alone = NeighboursOf(drawing, 0, 0), near = NeighboursOf(drawing, 0, 1);
  for (const WaitDrawing::Node& node : alone.nodes) EXPECT_EQ(node.rank, 0) << node.label;
  EXPECT_GT(near.nodes.size(), alone.nodes.size());
  EXPECT_TRUE(NeighboursOf(drawing, 7, 3).nodes.empty());
}

TEST(WaitDrawing, EscapesForXml) {
  WaitDrawing drawing;
  drawing.nodes.push_back({.label = "a<b>&\"c\x01"});
  const std::string xml = GraphMlOf(drawing);
  EXPECT_NE(xml.find(">a&lt;b&gt;&amp;&quot;c <"), std::string::npos) << xml;
}

}  // namespace
}  // namespace gordian::model
