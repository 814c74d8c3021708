#include "analyzer/server/graph_events.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>

#include "analyzer/server/call_symbols.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "tests/unit/server/recorded_job.h"

namespace gordian::server {
namespace {

using graph::Call;

template <typename A, typename B>
constexpr bool Same(A a, B b) {
  return static_cast<uint32_t>(a) == static_cast<uint32_t>(b);
}
static_assert(Same(ring::kCommIniting, graph::CommStateKind::kIniting));
static_assert(Same(ring::kCommReady, graph::CommStateKind::kReady));
static_assert(Same(ring::kCommFinalizing, graph::CommStateKind::kFinalizing));
static_assert(Same(ring::kCommDestroyed, graph::CommStateKind::kDestroyed));
static_assert(Same(ring::kCommAborted, graph::CommStateKind::kAborted));
static_assert(Same(ring::kCommRevoked, graph::CommStateKind::kRevoked));
static_assert(Same(ring::kCommFailed, graph::CommStateKind::kFailed));
static_assert(ring::kFlagInGroup == graph::kInGroup && ring::kFlagInPlace == graph::kInPlace &&
              ring::kFlagCapturing == graph::kCapturing &&
              ring::kFlagNonBlocking == graph::kNonBlockingComm);
static_assert(Same(ring::kStreamBlocking, graph::kStreamBlocking) &&
              Same(ring::kStreamLegacy, graph::kStreamLegacy) &&
              Same(ring::kStreamPerThread, graph::kStreamPerThread) &&
              Same(ring::kStreamFlagsUnknown, graph::kStreamFlagsUnknown));

TEST(CallFromSymbol, KnowsWhatMatters) {
  EXPECT_EQ(CallFromSymbol("ncclAllReduce"), Call::kAllReduce);
  EXPECT_EQ(CallFromSymbol("ncclBcast"), Call::kBroadcast);
  EXPECT_EQ(CallFromSymbol("ncclBroadcast"), Call::kBroadcast);
  EXPECT_EQ(CallFromSymbol("ncclGroupEnd"), Call::kGroupEnd);
  EXPECT_EQ(CallFromSymbol("ncclCommInitRankConfig"), Call::kCommInit);
  EXPECT_EQ(CallFromSymbol("ncclCommSplit"), Call::kCommSplit);
  EXPECT_EQ(CallFromSymbol("ncclMemFree"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cudaStreamSynchronize"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cudaStreamSynchronize_ptsz"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cuStreamSynchronize"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cuMemFree_v2"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cudaFree"), Call::kHostWait);
  EXPECT_EQ(CallFromSymbol("cudaEventQuery"), Call::kPoll);
  EXPECT_EQ(CallFromSymbol("cudaLaunchKernel"), Call::kStreamWork);
  EXPECT_EQ(CallFromSymbol("cudaStreamCreateWithFlags"), Call::kStreamCreate);
  EXPECT_EQ(CallFromSymbol("cuStreamDestroy_v2"), Call::kStreamDestroy);
  EXPECT_EQ(CallFromSymbol("ncclGetVersion"), Call::kOther);
  EXPECT_EQ(CallFromSymbol("ncclAllReduceButNotReally"), Call::kOther);
  EXPECT_EQ(CallFromSymbol(""), Call::kOther);
}

// Every intercepted call that blocks or is recorded means something to the model.
TEST(CallFromSymbol, CoversTheTableOfInterceptedCalls) {
  for (const ring::CallInfo& info : ring::kCalls) {
    // What graph calls mean is in their records.
    if (info.style == ring::CallStyle::kSilent || info.payload == ring::PayloadKind::kGraph)
      continue;
    EXPECT_NE(CallFromSymbol(info.name), Call::kOther) << info.name;
  }
}

class GraphEventsTest : public ::testing::Test {
 protected:
  bool Feed(const v1::Event& event) { return events_.OnEvent(event); }
  void FeedNew(testing::RecordedJob& job) {
    for (const v1::Event& event : job.Take()) EXPECT_TRUE(Feed(event)) << event.DebugString();
  }

  graph::JobModel model_;
  GraphEvents events_{&model_};
};

TEST_F(GraphEventsTest, AnHonestJobLosesNothing) {
  testing::RecordedJob job(2);
  job.MakeCommunicator(77, {0, 1}, "dp");
  for (int rank : {0, 1}) {
    job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", 77, 1, 1024);
    job.Kernels(rank, 1);
    job.RecordEvent(rank, 1, 5);
  }
  job.Round();
  FeedNew(job);
  EXPECT_TRUE(model_.HasUnfinished());
  for (int rank : {0, 1}) job.BeginSynchronize(rank, 1);
  for (int rank : {0, 1}) job.EndSynchronize(rank);
  job.Round();
  for (int rank : {0, 1}) job.EndProcess(rank, 0);
  job.EndJob(0);
  FeedNew(job);
  EXPECT_EQ(events_.rounds(), 2u);
  EXPECT_EQ(events_.dropped(), 0u);
  EXPECT_EQ(events_.unnamed(), 0u);
  EXPECT_EQ(events_.Symbol(701), "ncclAllReduce");
  EXPECT_EQ(events_.Symbol(1), "");
}

TEST_F(GraphEventsTest, DropsWhatMakesNoSense) {
  testing::RecordedJob job(1);
  job.MakeStream(0);
  FeedNew(job);
  auto record = [] {
    v1::Event event;
    v1::CallRecord* record = event.mutable_record();
    record->set_process(1);
    record->set_thread(1);
    record->set_kind(v1::RECORD_KIND_BEGIN);
    record->set_call(701);
    record->mutable_operation();
    return event;
  };
  EXPECT_TRUE(Feed(record()));
  uint64_t dropped = 0;
  auto refused = [&](const v1::Event& event) {
    EXPECT_FALSE(Feed(event)) << event.DebugString();
    EXPECT_EQ(events_.dropped(), ++dropped);
  };
  refused(v1::Event());
  v1::Event event = record();
  event.mutable_record()->set_process(99);  // nobody started it
  refused(event);
  event = record();
  event.mutable_record()->set_thread(0);
  refused(event);
  event = record();
  event.mutable_record()->set_call(70'000);
  refused(event);
  event = record();
  event.mutable_record()->set_kind(static_cast<v1::RecordKind>(17));
  refused(event);
  event = record();
  event.mutable_record()->set_kind(v1::RECORD_KIND_END);  // with an operation's payload
  refused(event);
  event = record();
  event.mutable_record()->mutable_operation()->set_sequence(UINT64_MAX);
  refused(event);
  event = record();
  event.mutable_record()->mutable_work()->set_kind(99);
  refused(event);
  event = record();
  event.mutable_record()->mutable_host_wait()->set_kind(0);
  refused(event);
  event = v1::Event();
  event.mutable_call_name()->set_call(UINT32_MAX);
  refused(event);
  event = v1::Event();
  event.mutable_process_started()->set_process(1);  // again
  refused(event);
  event = v1::Event();
  event.mutable_process_ended()->set_process(44);
  refused(event);
  event = v1::Event();
  event.mutable_round()->set_round(5);
  EXPECT_TRUE(Feed(event));
  refused(event);  // not later than the last
  event.mutable_round()->set_round(6);
  event.mutable_round()->set_begin_ns(2);
  event.mutable_round()->set_end_ns(1);
  refused(event);
  event = v1::Event();
  event.mutable_job_ended();
  EXPECT_TRUE(Feed(event));
  refused(event);  // once is enough
}

// Whatever bytes come: no crash, no endless allocation, and the model keeps answering.
// The last records of a process may be among those that were lost: no hole shows that.
TEST_F(GraphEventsTest, NothingIsProvenWithANodeWhoseBatchesWereLost) {
  for (const bool lost : {false, true}) {
    graph::JobModel model;
    GraphEvents events(&model);
    testing::RecordedJob job = testing::TwoRanks(true);
    for (const v1::Event& event : job.Take()) EXPECT_TRUE(events.OnEvent(event));
    if (lost) {
      v1::Event state;
      state.mutable_node_state()->set_node(0);
      state.mutable_node_state()->set_kind(v1::NODE_STATE_KIND_LOST);
      state.mutable_node_state()->set_lost_batches(1);
      EXPECT_TRUE(events.OnEvent(state));
    }
    for (int i = 0; i < 6; ++i) {
      job.Sleep(1'000'000'000);
      job.Round();
    }
    for (const v1::Event& event : job.Take()) EXPECT_TRUE(events.OnEvent(event));
    const graph::Finding main = model.Current().main;
    EXPECT_EQ(main.verdict == graph::VerdictKind::kDeadlock &&
                  main.confidence == graph::Confidence::kConfirmed,
              !lost)
        << main.summary;
  }
}

TEST_F(GraphEventsTest, SurvivesDamagedEvents) {
  testing::RecordedJob job(3);
  job.MakeCommunicator(7, {0, 1, 2}, "dp");
  for (int rank : {0, 1, 2}) {
    job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", 7, 1, 10);
    job.BeginSynchronize(rank, 1);
  }
  job.Round();
  google::protobuf::SetLogHandler(nullptr);  // it tells of every text that is not UTF-8
  std::mt19937 random(20251121);
  int fed = 0;
  for (int repetition = 0; repetition < 60; ++repetition) {
    graph::JobModel model;
    GraphEvents events(&model);
    for (const v1::Event& good : job.events()) {
      std::string bytes = good.SerializeAsString();
      if (random() % 3 == 0) {
        for (int flips = 0; flips < 3; ++flips) {
          bytes[random() % bytes.size()] = static_cast<char>(random());
        }
      }
      v1::Event damaged;
      if (!damaged.ParseFromString(bytes)) continue;
      events.OnEvent(damaged);
      ++fed;
    }
    const graph::Verdict verdict = model.Current();
    EXPECT_FALSE(std::string(graph::Name(verdict.main.verdict)).empty());
  }
  EXPECT_GT(fed, 1000);
}

}  // namespace
}  // namespace gordian::server
