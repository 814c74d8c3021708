#include "analyzer/ingest/graph_events.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "analyzer/stacks/call_symbols.h"
#include "common/record_block.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {
namespace {

using model::Call;

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
    if (info.style == ring::CallStyle::kSilent) continue;
    EXPECT_NE(CallFromSymbol(info.name), Call::kOther) << info.name;
  }
}

TEST(PayloadFromSymbol, IsThatOfTheTable) {
  for (const ring::CallInfo& info : ring::kCalls) {
    EXPECT_EQ(PayloadFromSymbol(info.name), info.payload) << info.name;
  }
  EXPECT_EQ(PayloadFromSymbol("cudaStreamSynchronize_ptsz"), ring::PayloadKind::kHostWait);
  EXPECT_EQ(PayloadFromSymbol("ncclAllReduceButNotReally"), ring::PayloadKind::kNone);
}

class GraphEventsTest : public ::testing::Test {
 protected:
  bool Feed(const v1::Event& event) { return events_.OnEvent(event); }
  void FeedNew(testing::RecordedJob& job) {
    for (const v1::Event& event : job.Take()) EXPECT_TRUE(Feed(event)) << event.DebugString();
  }

  model::JobModel model_;
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
  const auto block = [](const std::vector<ring::Record>& records) {
    v1::Event event;
    v1::RecordBlock* const block = BeginBlock(1, &event);
    for (const ring::Record& record : records) AppendRecord(record, block);
    return event;
  };
  ring::Record good{};
  good.kind = ring::RecordKind::kBegin;
  good.thread = 1;
  good.call = 701;  // ncclAllReduce
  EXPECT_TRUE(Feed(block({good})));
  uint64_t dropped = 0;
  auto refused = [&](const v1::Event& event) {
    EXPECT_FALSE(Feed(event)) << event.DebugString();
    EXPECT_EQ(events_.dropped(), ++dropped);
  };
  refused(v1::Event());
  v1::Event event = block({good});
  event.mutable_records()->set_process(99);  // nobody started it
  refused(event);
  event = block({good});
  event.mutable_records()->set_abi(ring::kRingAbiVersion + 1);
  refused(event);
  event = block({good});
  event.mutable_records()->mutable_records()->pop_back();
  refused(event);
  refused(block({}));
  event = v1::Event();
  event.mutable_record()->set_process(1);  // TraceReader makes blocks of them
  refused(event);
  const auto bad = [&](const std::function<void(ring::Record*)>& spoil) {
    ring::Record record = good;
    spoil(&record);
    refused(block({record}));
  };
  bad([](ring::Record* record) { record->thread = 0; });
  bad([](ring::Record* record) { record->call = ring::kCallNone; });
  bad([](ring::Record* record) { record->kind = ring::RecordKind::kNone; });
  bad([](ring::Record* record) { record->kind = static_cast<ring::RecordKind>(17); });
  bad([](ring::Record* record) { record->order = UINT64_MAX; });
  bad([](ring::Record* record) { record->payload.operation.sequence = UINT64_MAX; });
  bad([](ring::Record* record) {
    record->kind = ring::RecordKind::kEnd;
    record->payload.end.ordinal = UINT64_MAX;
  });
  bad([](ring::Record* record) {
    record->kind = ring::RecordKind::kEnqueue;
    record->payload.enqueue.ordinal = UINT64_MAX;
  });
  bad([](ring::Record* record) {
    record->call = 711;  // cudaLaunchKernel
    record->payload.work.kind = static_cast<ring::WorkKind>(99);
  });
  bad([](ring::Record* record) {
    record->call = 709;  // cudaStreamSynchronize
    record->payload.host_wait.kind = static_cast<ring::WaitKind>(0);
  });
  // Of a block only what makes no sense is dropped.
  const uint64_t records = events_.records();
  ring::Record nobodys = good;
  nobodys.thread = 0;
  refused(block({good, nobodys, good}));
  EXPECT_EQ(events_.records(), records + 2);
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
    model::JobModel model;
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
    const model::Finding main = model.Current().main;
    EXPECT_EQ(main.verdict == model::VerdictKind::kDeadlock &&
                  main.confidence == model::Confidence::kConfirmed,
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
    model::JobModel model;
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
    const model::Verdict verdict = model.Current();
    EXPECT_FALSE(std::string(model::Name(verdict.main.verdict)).empty());
  }
  EXPECT_GT(fed, 1000);
}

}  // namespace
}  // namespace gordian::analyzer
