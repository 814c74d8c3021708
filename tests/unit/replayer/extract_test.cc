// Schedules of recorded jobs: what is unfinished stays, what is done goes, and what cannot be
// replayed is refused.
#include "replayer/record/extract.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "common/trace_file.h"
#include "replayer/verify/witness.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::replayer {
namespace {

using gordian::testing::RecordedJob;

constexpr uint64_t kDp = 0x11;
constexpr uint64_t kTp = 0x22;

class ExtractTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (!path_.empty()) unlink(path_.c_str());
  }

  // `change` may alter an event before it is written.
  Extracted Of(RecordedJob& job, const std::function<void(v1::Event*)>& change = nullptr) {
    char name[] = "/tmp/gordian-replay-test-XXXXXX";
    const int fd = mkstemp(name);
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = name;
    StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path_, {});
    EXPECT_TRUE(writer.ok());
    for (v1::Event event : job.events()) {
      if (change) change(&event);
      EXPECT_TRUE((*writer)->Append(std::move(event)).ok());
    }
    EXPECT_TRUE((*writer)->Close().ok());
    StatusOr<Extracted> extracted = Extract(path_);
    EXPECT_TRUE(extracted.ok()) << extracted.status().ToString();
    unlink(path_.c_str());
    return extracted.ok() ? std::move(*extracted) : Extracted{};
  }

  std::string path_;
};

// `steps` steps that end well, and then the same again, by rank 1 the other way round if it is to
// hang.
RecordedJob Inversion(int steps, bool hangs) {
  RecordedJob job(2);
  job.MakeCommunicator(kDp, {0, 1}, "dp");
  job.MakeCommunicator(kTp, {0, 1}, "tp");
  for (const int rank : {0, 1}) job.MakeStream(rank);
  for (int step = 0; step < steps; ++step) {
    for (const int rank : {0, 1}) {
      job.Kernels(rank, 1);
      job.Collective(rank, "ncclAllReduce", kDp, 1, 1024);
      job.Collective(rank, "ncclAllReduce", kTp, 1, 1024);
    }
    job.AllDone();
    job.Round();
  }
  for (const int rank : {0, 1}) {
    const bool reverse = rank == 1 && hangs;
    job.Collective(rank, "ncclAllReduce", reverse ? kTp : kDp, 1, 4096);
    job.Collective(rank, "ncclAllReduce", reverse ? kDp : kTp, 1, 4096);
    job.BeginSynchronize(rank, 1);
  }
  if (!hangs) {
    job.AllDone();
    for (const int rank : {0, 1}) job.EndSynchronize(rank);
  }
  for (int round = 0; round < 3; ++round) job.Round();
  return job;
}

TEST_F(ExtractTest, AnInversionIsItsUnfinishedTail) {
  RecordedJob job = Inversion(50, true);
  const Extracted extracted = Of(job);
  ASSERT_TRUE(extracted.refused.empty()) << extracted.refused.front();
  const Schedule& schedule = extracted.schedule;
  EXPECT_TRUE(Check(schedule).empty());
  EXPECT_EQ(schedule.origin.signature.verdict, "deadlock");
  EXPECT_EQ(schedule.origin.signature.edges, std::vector<std::string>{"started_collective"});
  EXPECT_EQ(schedule.origin.operations, 204u);
  EXPECT_EQ(CountOperations(schedule), 4u);
  ASSERT_EQ(schedule.comms.size(), 2u);
  EXPECT_EQ(schedule.comms[0].name, "dp");
  EXPECT_TRUE(schedule.comms[0].ready);
  EXPECT_TRUE(schedule.comms[0].connected);  // by the steps that are left out
  ASSERT_EQ(schedule.ranks.size(), 2u);
  const std::vector<Op>& ops = schedule.ranks[1].threads.at(0).ops;
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(schedule.comms[static_cast<size_t>(ops[0].comm)].name, "tp");
  EXPECT_EQ(ops[0].count, 4096u);
  EXPECT_EQ(ops[2].kind, OpKind::kStreamSync);
  EXPECT_TRUE(ops[2].unfinished);
  EXPECT_EQ(CountOperations(CutToWitness(schedule)), 4u);
}

TEST_F(ExtractTest, WhatWasNotUsedBeforeIsNotConnected) {
  RecordedJob job = Inversion(0, true);
  const Extracted extracted = Of(job);
  ASSERT_TRUE(extracted.refused.empty());
  EXPECT_FALSE(extracted.schedule.comms.at(0).connected);
}

TEST_F(ExtractTest, TheInnocentTwinIsRefused) {
  RecordedJob job = Inversion(5, false);
  const Extracted extracted = Of(job);
  ASSERT_FALSE(extracted.refused.empty());
  EXPECT_NE(extracted.refused[0].find("does not hang"), std::string::npos) << extracted.refused[0];
}

TEST_F(ExtractTest, WhereRecordsWereLostItIsRefused) {
  RecordedJob job = Inversion(5, true);
  const Extracted extracted = Of(job, [](v1::Event* event) {
    if (!event->has_round()) return;
    for (v1::ProcessState& state : *event->mutable_round()->mutable_processes())
      state.set_lost_records(3);
  });
  ASSERT_FALSE(extracted.refused.empty());
  EXPECT_TRUE(std::any_of(extracted.refused.begin(), extracted.refused.end(),
                          [](const std::string& reason) {
                            return reason.find("records were lost") != std::string::npos;
                          }));
}

TEST_F(ExtractTest, WhatComesAfterTheHangIsLeftOut) {
  RecordedJob job = Inversion(5, true);
  job.EndProcess(0, 9);  // somebody kills it
  job.Round();
  job.EndProcess(1, 9);
  job.EndJob(9);
  const Extracted extracted = Of(job);
  ASSERT_TRUE(extracted.refused.empty()) << extracted.refused.front();
  EXPECT_EQ(extracted.schedule.origin.signature.verdict, "deadlock");
  for (const RankProgram& rank : extracted.schedule.ranks) {
    EXPECT_EQ(rank.threads.at(0).ops.back().kind, OpKind::kStreamSync);
  }
}

TEST_F(ExtractTest, ARankThatExitedExitsAgain) {
  RecordedJob job(3);
  job.MakeCommunicator(kDp, {0, 1, 2}, "dp");
  for (const int rank : {0, 1, 2}) {
    job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", kDp, 1, 16);
  }
  job.AllDone();
  job.Round();
  job.EndProcess(2, 3);
  for (const int rank : {0, 1}) {
    job.Collective(rank, "ncclAllReduce", kDp, 1, 16);
    job.BeginSynchronize(rank, 1);
  }
  for (int round = 0; round < 3; ++round) job.Round();
  const Extracted extracted = Of(job);
  ASSERT_TRUE(extracted.refused.empty()) << extracted.refused.front();
  EXPECT_EQ(extracted.schedule.origin.signature.verdict, "rank_exited");
  ASSERT_EQ(extracted.schedule.ranks.size(), 3u);
  const std::vector<Op>& ops = extracted.schedule.ranks[2].threads.at(0).ops;
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].kind, OpKind::kExit);
  EXPECT_EQ(ops[0].exit_code, 3);
}

// Two streams and an event between them; an event that is done with is left out together with its
// wait.
TEST_F(ExtractTest, EventsBetweenUnfinishedOperationsStay) {
  RecordedJob job(2);
  job.MakeCommunicator(kDp, {0, 1}, "dp");
  job.MakeCommunicator(kTp, {0, 1}, "tp");
  for (const int rank : {0, 1}) {
    job.MakeStream(rank);
    job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", kDp, 1, 16);
    job.Collective(rank, "ncclAllReduce", kTp, 2, 16);
    job.RecordEvent(rank, 1, 0xe1);
  }
  job.AllDone();
  job.Round();
  for (const int rank : {0, 1}) {
    const uint32_t first = rank == 0 ? 1 : 2;
    job.Collective(rank, "ncclAllReduce", rank == 0 ? kDp : kTp, first, 16);
    job.WaitEvent(rank, 3 - first, 0xe1);  // of what is done
    job.RecordEvent(rank, first, 0xe2);
    job.WaitEvent(rank, 3 - first, 0xe2);
    job.Collective(rank, "ncclAllReduce", rank == 0 ? kTp : kDp, 3 - first, 16);
    job.BeginSynchronize(rank, 3 - first);
  }
  for (int round = 0; round < 3; ++round) job.Round();
  const Extracted extracted = Of(job);
  ASSERT_TRUE(extracted.refused.empty()) << extracted.refused.front();
  EXPECT_EQ(extracted.schedule.origin.signature.verdict, "deadlock");
  for (const RankProgram& rank : extracted.schedule.ranks) {
    EXPECT_EQ(rank.events, 1);
    std::vector<OpKind> kinds;
    for (const Op& op : rank.threads.at(0).ops) kinds.push_back(op.kind);
    EXPECT_EQ(kinds, (std::vector<OpKind>{OpKind::kAllReduce, OpKind::kEventRecord,
                                          OpKind::kStreamWaitEvent, OpKind::kAllReduce,
                                          OpKind::kStreamSync}));
  }
}

TEST(Extract, WhatIsNoTraceIsAnError) { EXPECT_FALSE(Extract("/nonexistent/trace.gtrace").ok()); }

}  // namespace
}  // namespace gordian::replayer
