#include "replayer/reduce/fixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "replayer/record/not_reached.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {
namespace {

// Two ranks with two streams each, and two communicators of both that have been used before.
class Job {
 public:
  Job() {
    for (const char* name : {"dp", "tp"}) {
      Communicator comm;
      comm.name = name;
      comm.members = {0, 1};
      comm.ready = comm.connected = true;
      comm.connected_pairs = {{0, 1}, {1, 0}};
      schedule.comms.push_back(comm);
    }
    for (int r = 0; r < 2; ++r) {
      RankProgram rank;
      rank.rank = rank.device = r;
      rank.streams = {{.name = "s1"}, {.name = "s2"}};
      rank.threads.emplace_back();
      schedule.ranks.push_back(rank);
    }
  }

  Job& Call(int rank, OpKind kind, int comm, int stream, int peer = -1) {
    Op& op = Add(rank, kind);
    op.comm = comm;
    op.stream = stream;
    op.root_or_peer = peer;
    op.count = 1024;
    op.datatype = 7;
    op.reduce_op = kind == OpKind::kAllReduce ? 0 : 255;
    return *this;
  }
  Job& Wait(int rank, bool unfinished) {
    Add(rank, OpKind::kDeviceSync).unfinished = unfinished;
    return *this;
  }
  Op& Add(int rank, OpKind kind) {
    std::vector<Op>& ops = schedule.ranks[rank].threads[0].ops;
    ops.emplace_back();
    ops.back().id = ++last_;
    ops.back().kind = kind;
    return ops.back();
  }

  std::vector<std::string> Fixes() {
    EXPECT_TRUE(Check(schedule).empty());
    EXPECT_TRUE(RunModel(schedule).hangs);
    AddNotReached(&schedule);
    EXPECT_TRUE(RunModel(schedule).hangs);
    std::vector<std::string> names;
    for (const Fix& fix : ProposeFixes(schedule)) {
      names.push_back(fix.name);
      EXPECT_FALSE(RunModel(fix.schedule).hangs) << fix.name;
      EXPECT_EQ(RunModel(fix.schedule).signature.verdict, "finished") << fix.name;
    }
    return names;
  }

  Schedule schedule;

 private:
  OpId last_ = 0;
};

using Names = std::vector<std::string>;

TEST(Fixes, AnInversionWithAHostWaitBetween) {
  Job job;
  job.Call(0, OpKind::kAllReduce, 0, 0).Wait(0, true);
  job.Call(1, OpKind::kAllReduce, 1, 1).Wait(1, true);
  // What was not reached goes to a stream of its own, as at the rank that calls it.
  EXPECT_EQ(job.Fixes(), (Names{"order", "hoisted"}));
}

TEST(Fixes, AHostWaitBetweenTwoStreams) {
  Job job;
  job.Call(0, OpKind::kAllReduce, 0, 0).Wait(0, true).Call(0, OpKind::kAllReduce, 1, 1);
  job.Call(1, OpKind::kAllReduce, 1, 1).Wait(1, true).Call(1, OpKind::kAllReduce, 0, 0);
  EXPECT_EQ(job.Fixes(), (Names{"order", "hoisted"}));
}

TEST(Fixes, AnInversionOnOneStream) {
  Job job;
  job.Call(0, OpKind::kAllReduce, 0, 0).Call(0, OpKind::kAllReduce, 1, 0).Wait(0, true);
  job.Call(1, OpKind::kAllReduce, 1, 0).Call(1, OpKind::kAllReduce, 0, 0).Wait(1, true);
  const Names fixes = job.Fixes();
  EXPECT_EQ(std::count(fixes.begin(), fixes.end(), "order"), 1);
  EXPECT_EQ(std::count(fixes.begin(), fixes.end(), "hoisted"), 0);  // nothing is between
}

TEST(Fixes, ReceivesFirstAtBoth) {
  Job job;
  job.Call(0, OpKind::kRecv, 0, 0, 1).Call(0, OpKind::kSend, 0, 0, 1).Wait(0, true);
  job.Call(1, OpKind::kRecv, 0, 0, 0).Call(1, OpKind::kSend, 0, 0, 0).Wait(1, true);
  const Names fixes = job.Fixes();
  EXPECT_EQ(std::count(fixes.begin(), fixes.end(), "grouped"), 1);
}

TEST(Fixes, NoneForARankThatIsAbsent) {
  Job job;
  job.Call(0, OpKind::kAllReduce, 0, 0).Wait(0, true);
  job.Add(1, OpKind::kSleep);
  EXPECT_EQ(job.Fixes(), Names{});
}

TEST(Fixes, NoneWhereGatesKeepTheOrder) {
  Job job;
  job.Call(0, OpKind::kAllReduce, 0, 0).Wait(0, true);
  job.Call(1, OpKind::kAllReduce, 1, 1).Wait(1, true);
  job.schedule.ranks[1].threads[0].ops[0].gates.push_back({.after = 1});
  EXPECT_TRUE(ProposeFixes(job.schedule).empty());
}

}  // namespace
}  // namespace gordian::replayer
