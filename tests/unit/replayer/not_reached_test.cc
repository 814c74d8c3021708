#include "replayer/record/not_reached.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gordian::replayer {
namespace {

Op Call(OpId id, OpKind kind, int comm, int stream, int peer = -1) {
  Op op;
  op.id = id;
  op.kind = kind;
  op.comm = comm;
  op.stream = stream;
  op.root_or_peer = peer;
  op.count = 1024;
  return op;
}

Op Wait(OpId id) {
  Op op;
  op.id = id;
  op.kind = OpKind::kDeviceSync;
  op.unfinished = true;
  return op;
}

// Two ranks, two communicators of both, a stream each.
Schedule Two(std::vector<Op> first, std::vector<Op> second) {
  Schedule schedule;
  for (const char* name : {"dp", "tp"}) {
    Communicator comm;
    comm.name = name;
    comm.members = {0, 1};
    comm.ready = true;
    schedule.comms.push_back(comm);
  }
  for (std::vector<Op>* ops : {&first, &second}) {
    RankProgram rank;
    rank.rank = static_cast<int>(schedule.ranks.size());
    rank.streams.push_back({.name = "s1"});
    rank.threads.push_back({std::move(*ops)});
    schedule.ranks.push_back(rank);
  }
  return schedule;
}

std::vector<std::string> Calls(const Schedule& schedule, int rank) {
  std::vector<std::string> calls;
  for (const Op& op : schedule.ranks[rank].threads[0].ops) {
    calls.push_back((op.not_reached ? "+" : "") + std::string(Name(op.kind)) +
                    (op.comm >= 0 ? std::to_string(op.comm) : ""));
  }
  return calls;
}

TEST(NotReached, WhatTheOtherOfAnInversionCalled) {
  Schedule schedule = Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)},
                          {Call(3, OpKind::kAllGather, 1, 0), Wait(4)});
  EXPECT_EQ(AddNotReached(&schedule), 2u);
  EXPECT_EQ(Calls(schedule, 0),
            (std::vector<std::string>{"AllReduce0", "DeviceSync", "+AllGather1"}));
  EXPECT_EQ(Calls(schedule, 1),
            (std::vector<std::string>{"AllGather1", "DeviceSync", "+AllReduce0"}));
  EXPECT_EQ(schedule.ranks[0].threads[0].ops[2].site, "not reached; rank 1 calls it");
  EXPECT_EQ(CountOperations(schedule), 2u);
  EXPECT_TRUE(Check(schedule).empty());
  EXPECT_EQ(AddNotReached(&schedule), 0u);  // all there now
}

// Each rank has called the communicator that it does not reach before.
TEST(NotReached, TheStreamIsTheUsualOne) {
  const std::vector<Op> first = {Call(1, OpKind::kAllReduce, 0, 0), Wait(2)};
  const std::vector<Op> second = {Call(3, OpKind::kAllReduce, 1, 0), Wait(4)};
  Schedule one_stream = Two(first, second);
  one_stream.ranks[0].usual_streams["tp"] = "s1";
  one_stream.ranks[1].usual_streams["dp"] = "s1";
  EXPECT_EQ(AddNotReached(&one_stream), 2u);
  for (const RankProgram& rank : one_stream.ranks) {
    EXPECT_EQ(rank.threads[0].ops[2].stream, 0);
    EXPECT_EQ(rank.streams.size(), 1u);
  }
  Schedule two_streams = Two(first, second);
  two_streams.ranks[0].usual_streams["tp"] = "stream 7";
  two_streams.ranks[1].usual_streams["dp"] = "stream 7";
  EXPECT_EQ(AddNotReached(&two_streams), 2u);
  for (const RankProgram& rank : two_streams.ranks) {
    EXPECT_EQ(rank.threads[0].ops[2].stream, 1);
    EXPECT_EQ(rank.streams[1].name, "s2");
  }
}

TEST(NotReached, TheOtherEndOfATransfer) {
  Schedule schedule =
      Two({Call(1, OpKind::kRecv, 0, 0, 1), Wait(2)}, {Call(3, OpKind::kAllReduce, 1, 0), Wait(4)});
  EXPECT_EQ(AddNotReached(&schedule), 2u);
  EXPECT_EQ(Calls(schedule, 1), (std::vector<std::string>{"AllReduce1", "DeviceSync", "+Send0"}));
  EXPECT_EQ(schedule.ranks[1].threads[0].ops[2].root_or_peer, 0);
  EXPECT_EQ(schedule.ranks[1].threads[0].ops[2].site, "not reached; rank 0 calls the other end");
}

TEST(NotReached, AGroupStaysAGroup) {
  Op start, end;
  start.id = 10;
  start.kind = OpKind::kGroupStart;
  end.id = 11;
  end.kind = OpKind::kGroupEnd;
  end.unfinished = true;
  Op send = Call(1, OpKind::kSend, 0, 0, 1), receive = Call(2, OpKind::kRecv, 0, 0, 1);
  send.in_group = receive.in_group = true;
  Schedule schedule =
      Two({start, send, receive, end}, {Call(3, OpKind::kAllReduce, 1, 0), Wait(4)});
  EXPECT_EQ(AddNotReached(&schedule), 3u);
  EXPECT_EQ(Calls(schedule, 1), (std::vector<std::string>{"AllReduce1", "DeviceSync", "+GroupStart",
                                                          "+Recv0", "+Send0", "+GroupEnd"}));
  EXPECT_EQ(Calls(schedule, 0),
            (std::vector<std::string>{"GroupStart", "Send0", "Recv0", "GroupEnd", "+AllReduce1"}));
  EXPECT_TRUE(Check(schedule).empty());
}

TEST(NotReached, OfWhomNobodyKnows) {
  Op sleep;
  sleep.id = 5;
  sleep.kind = OpKind::kSleep;
  Schedule absent = Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)}, {sleep});
  EXPECT_EQ(AddNotReached(&absent), 0u);

  Schedule running =
      Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)}, {Call(3, OpKind::kAllGather, 1, 0)});
  EXPECT_EQ(AddNotReached(&running),
            1u);  // the second stands in no call: what came then would be called
  EXPECT_EQ(Calls(running, 1), (std::vector<std::string>{"AllGather1"}));

  Schedule captured = Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)},
                          {Call(3, OpKind::kAllGather, 1, 0), Wait(4)});
  captured.ranks[0].threads[0].ops[0].captured = true;  // in a graph that is not launched
  EXPECT_EQ(AddNotReached(&captured), 1u);
  EXPECT_EQ(Calls(captured, 1), (std::vector<std::string>{"AllGather1", "DeviceSync"}));
}

TEST(NotReached, WhatAGraphHoldsThatIsLaunchedOnce) {
  const auto graph = [](OpId id, OpKind kind) {
    Op op = Call(id, kind, -1, 0);
    op.graph = 0;
    return op;
  };
  Op inside = Call(11, OpKind::kAllReduce, 0, 0);
  inside.captured = true;
  const std::vector<Op> once = {graph(10, OpKind::kCaptureBegin), inside,
                                graph(12, OpKind::kCaptureEnd), graph(13, OpKind::kGraphLaunch),
                                Wait(14)};
  std::vector<Op> twice = once;
  twice.insert(twice.end() - 1, graph(15, OpKind::kGraphLaunch));
  for (const bool again : {false, true}) {
    Schedule schedule = Two(again ? twice : once, {Call(3, OpKind::kAllGather, 1, 0), Wait(4)});
    schedule.ranks[0].graphs = 1;
    EXPECT_EQ(AddNotReached(&schedule), again ? 1u : 2u);
    EXPECT_EQ(Calls(schedule, 1).back(), again ? "DeviceSync" : "+AllReduce0");
    EXPECT_FALSE(schedule.ranks[1].threads[0].ops.back().captured);
    EXPECT_TRUE(Check(schedule).empty());
  }
}

// Each rank makes another communicator first.
TEST(NotReached, WhatMakesACommunicator) {
  Schedule schedule = Two({Call(1, OpKind::kCommInit, 0, -1)}, {Call(2, OpKind::kCommInit, 1, -1)});
  for (Communicator& comm : schedule.comms) comm.ready = false;
  for (RankProgram& rank : schedule.ranks) rank.threads[0].ops[0].unfinished = true;
  EXPECT_EQ(AddNotReached(&schedule), 2u);
  EXPECT_EQ(Calls(schedule, 0), (std::vector<std::string>{"CommInit0", "+CommInit1"}));
  EXPECT_EQ(Calls(schedule, 1), (std::vector<std::string>{"CommInit1", "+CommInit0"}));
  EXPECT_TRUE(Check(schedule).empty());
}

// The caller has a stream for each communicator: so has the rank that did not reach the call. With
// one stream for both, the two would hang without the wait as well.
TEST(NotReached, TheStreamIsLikeTheCallers) {
  Schedule schedule = Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)},
                          {Call(3, OpKind::kAllReduce, 1, 0), Wait(4)});
  EXPECT_EQ(AddNotReached(&schedule), 2u);
  for (const RankProgram& rank : schedule.ranks) {
    ASSERT_EQ(rank.streams.size(), 2u);
    EXPECT_EQ(rank.threads[0].ops.back().stream, 1);
  }
  // Rank 1 has both on one stream; so has rank 0 then.
  schedule = Two({Call(1, OpKind::kAllReduce, 0, 0), Wait(2)},
                 {Call(3, OpKind::kAllReduce, 1, 0), Call(4, OpKind::kAllReduce, 0, 0), Wait(5)});
  EXPECT_EQ(AddNotReached(&schedule), 1u);
  EXPECT_EQ(schedule.ranks[0].streams.size(), 1u);
  EXPECT_EQ(schedule.ranks[0].threads[0].ops.back().stream, 0);
}

}  // namespace
}  // namespace gordian::replayer
