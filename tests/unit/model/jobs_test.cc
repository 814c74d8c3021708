// Jobs that hang, each with an innocent twin: what the model says about them, from any
// interleaving.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

TEST(Jobs, InversionOnOneStream) {
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
              Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}},
             Deadlock({0, 1}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                              Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()}});
}

TEST(Jobs, InversionOfFourNamesTheOneThatDeparts) {
  const Program usual = Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()};
  ExpectHang(Comms(2, 4),
             {usual, usual, Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}, usual},
             Deadlock({2}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 4), {usual, usual, usual, usual});
}

TEST(Jobs, InversionWithSubset) {
  std::vector<SimComm> comms = Comms(2, 4);
  comms[1].members = {0, 1, 2};
  const Program usual = Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()};
  ExpectHang(comms,
             {usual, Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}, usual,
              Program{Init(0), AllReduce(0), StreamSync()}},
             Deadlock({1}, "communicator-order-cycle"));
  ExpectHealthy(comms, {usual, usual, usual, Program{Init(0), AllReduce(0), StreamSync()}});
}

TEST(Jobs, TwoStreamsWarmComplete) {
  ExpectHealthy(Comms(2, 2), {Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
                              Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}});
}

TEST(Jobs, DeviceSyncBetween) {
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
              Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}},
             Deadlock({0, 1}, "host-wait-cycle"));
}

TEST(Jobs, FreeBetween) {
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{AllReduce(0, 1), Free(), AllReduce(1, 2), DeviceSync()},
              Inits(2) + Program{AllReduce(1, 2), Free(), AllReduce(0, 1), DeviceSync()}},
             Deadlock({0, 1}, "host-wait-cycle"));
}

TEST(Jobs, ColdInversion) {
  const std::vector<Program> inverted = {
      Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}};
  ExpectHang(Comms(2, 2), inverted, Deadlock({0, 1}, "first-use-order-cycle"), 0.7, true);
  // Warmed up in one order, the same calls complete.
  std::vector<Program> warm;
  for (const Program& p : inverted) {
    warm.push_back(Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()} +
                   Program(p.begin() + 2, p.end()));
  }
  ExpectHealthy(Comms(2, 2), warm, true);
}

TEST(Jobs, ThreeCommunicatorsInACycle) {
  std::vector<SimComm> comms = Comms(3, 3);
  comms[0].members = {0, 1};
  comms[1].members = {1, 2};
  comms[2].members = {0, 2};
  const Program i0 = {Init(0), Init(2)}, i1 = {Init(0), Init(1)}, i2 = {Init(1), Init(2)};
  ExpectHang(comms,
             {i0 + Program{AllReduce(0), AllReduce(2), StreamSync()},
              i1 + Program{AllReduce(1), AllReduce(0), StreamSync()},
              i2 + Program{AllReduce(2), AllReduce(1), StreamSync()}},
             Deadlock({0, 1, 2}, "communicator-order-cycle"));
  ExpectHealthy(comms, {i0 + Program{AllReduce(0), AllReduce(2), StreamSync()},
                        i1 + Program{AllReduce(0), AllReduce(1), StreamSync()},
                        i2 + Program{AllReduce(2), AllReduce(1), StreamSync()}});
}

// Whoever has received from a peer has not yet connected to send to it.
TEST(Jobs, ColdCircleOfDirections) {
  const std::vector<SimComm> comms = Comms(1, 3);
  const Program zero = {Init(0), Send(0, 1), Recv(0, 2), Recv(0, 1), StreamSync()};
  const Program two = {Init(0), Recv(0, 1), Send(0, 0), StreamSync()};
  ExpectHang(comms, {zero, {Init(0), Recv(0, 0), Send(0, 0), Send(0, 2), StreamSync()}, two},
             Deadlock({0, 1, 2}, "first-use-order-cycle"), 0.7, true);
  ExpectHealthy(comms, {zero, {Init(0), Recv(0, 0), Send(0, 2), Send(0, 0), StreamSync()}, two},
                true);
}

// An all-to-all connects pair by pair, whatever other collectives have connected.
TEST(Jobs, ColdAllToAll) {
  const Op exchange = Collective(Call::kAllToAll, 0);
  const Program used = Inits(2) + Program{AllReduce(0), StreamSync()};
  ExpectHang(Comms(2, 2),
             {used + Program{exchange, AllReduce(1), StreamSync()},
              used + Program{AllReduce(1), exchange, StreamSync()}},
             Deadlock({0, 1}, "first-use-order-cycle"), 0.7, true);
  const Program same = used + Program{exchange, AllReduce(1), exchange, StreamSync()};
  ExpectHealthy(Comms(2, 2), {same, same}, true);
  // Used before, it waits for nobody on the host: on two streams the order does not matter.
  const Program warm = used + Program{exchange, AllReduce(1, 2), DeviceSync()};
  ExpectHealthy(Comms(2, 2),
                {warm + Program{exchange, AllReduce(1, 2), DeviceSync()},
                 warm + Program{AllReduce(1, 2), exchange, DeviceSync()}},
                true);
}

TEST(Jobs, HybridReceiveAndAllReduce) {
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{Recv(0, 1), AllReduce(1), StreamSync()},
              Inits(2) + Program{AllReduce(1), Send(0, 0), StreamSync()}},
             Deadlock({0, 1}, "point-to-point-order-cycle"));
  ExpectHealthy(Comms(2, 2), {Inits(2) + Program{Recv(0, 1), AllReduce(1), StreamSync()},
                              Inits(2) + Program{Send(0, 0), AllReduce(1), StreamSync()}});
  // Each rank waits for the one on its host before it calls the other.
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{Recv(0, 1), StreamSync(), AllReduce(1), StreamSync()},
              Inits(2) + Program{AllReduce(1), StreamSync(), Send(0, 0), StreamSync()}},
             Deadlock({0, 1}, "host-wait-cycle"));
  // Cold, it hangs on the host.
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{Recv(0, 1), AllReduce(1), StreamSync()},
              Inits(2) + Program{AllReduce(1), Send(0, 0), StreamSync()}},
             Deadlock({0, 1}, "first-use-order-cycle"), 0.7, true);
}

TEST(Jobs, SwappedPipelineStage) {
  // Forward to the next stage, gradients back; stage 1 wants its gradient first.
  const Program s0 = {Init(0), Send(0, 1), Recv(0, 1), StreamSync()};
  const Program s1 = {Init(0), Recv(0, 0), Send(0, 2), Recv(0, 2), Send(0, 0), StreamSync()};
  const Program swapped = {Init(0), Recv(0, 0), Recv(0, 2), Send(0, 2), Send(0, 0), StreamSync()};
  const Program s2 = {Init(0), Recv(0, 1), Send(0, 1), StreamSync()};
  ExpectHang(Comms(1, 3), {s0, swapped, s2}, Deadlock({1, 2}, "point-to-point-order-cycle"));
  ExpectHealthy(Comms(1, 3), {s0, s1, s2});
}

TEST(Jobs, EventCycle) {
  const Program a = {AllReduce(0, 1), Record(1, 1), WaitEvent(1, 2), AllReduce(1, 2), DeviceSync()};
  const Program b = {AllReduce(1, 2), Record(1, 2), WaitEvent(1, 1), AllReduce(0, 1), DeviceSync()};
  ExpectHang(Comms(2, 2), {Inits(2) + a, Inits(2) + b}, Deadlock({0, 1}, "event-cycle"));
  ExpectHealthy(Comms(2, 2), {Inits(2) + a, Inits(2) + a});
}

TEST(Jobs, LegacyStreamJoinsWhatLooksIndependent) {
  // Between blocking streams, work on the default stream orders them both ways.
  const Program a = {AllReduce(0, 1), Kernel(0), AllReduce(1, 2), DeviceSync()};
  const Program b = {AllReduce(1, 2), Kernel(0), AllReduce(0, 1), DeviceSync()};
  ExpectHang(Comms(2, 2), {Inits(2) + a, Inits(2) + b},
             Deadlock({0, 1}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 2), {Inits(2) + a, Inits(2) + a});
}

// W13 of a launch that is still being connected: rank 2 has not made the call that rank 0 connects
// in.
TEST(Jobs, LegacyStreamHoldsWhatIsNotEnqueuedYet) {
  const auto first = [](int stream) {
    return Inits(2) + Program{AllReduce(1, 1), AllReduce(0, 1), AllReduce(1, stream), DeviceSync()};
  };
  const Program second = Inits(2) + Program{AllReduce(1, 1), Graph(1, {AllReduce(1, 1)}, 1),
                                            AllReduce(0, 1), DeviceSync()};
  std::vector<SimComm> comms = Comms(2, 3);
  comms[0].members = {0, 1};
  ExpectHang(comms, {first(0), second, {Init(1), AllReduce(1), Sleep()}},
             Deadlock({0, 1}, "communicator-order-cycle"), 0.7, /*cold=*/true);
  ExpectHealthy(comms, {first(2), second, {Init(1), AllReduce(1), AllReduce(1), DeviceSync()}},
                /*cold=*/true);
}

TEST(Jobs, OneCommunicatorRunsInOrderAcrossStreams) {
  const Program a = {AllReduce(0, 1), AllReduce(1, 2), AllReduce(0, 2), DeviceSync()};
  ExpectHealthy(Comms(2, 2), {Inits(2) + a, Inits(2) + a});
}

TEST(Jobs, GroupedExchangeCompletes) {
  const Program a = {Init(0), GroupStart(), Send(0, 1), Recv(0, 1), GroupEnd(), StreamSync()};
  const Program b = {Init(0), GroupStart(), Send(0, 0), Recv(0, 0), GroupEnd(), StreamSync()};
  ExpectHealthy(Comms(1, 2), {a, b});
  ExpectHealthy(Comms(1, 2), {a, b}, true);
}

TEST(Jobs, GroupBlockedOnOneStreamHoldsTheOthers) {
  // The group at rank 0 needs both streams; stream 2 is held by B, which rank 1 starts after A.
  const Program r0 = {AllReduce(1, 2), GroupStart(), AllReduce(0, 1),
                      AllReduce(0, 2), GroupEnd(),   DeviceSync()};
  const Program r1 = {GroupStart(), AllReduce(0, 1), AllReduce(0, 2),
                      GroupEnd(),   AllReduce(1, 2), DeviceSync()};
  ExpectHang(Comms(2, 2), {Inits(2) + r0, Inits(2) + r1},
             Deadlock({0, 1}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 2), {Inits(2) + r0, Inits(2) + r0});
}

TEST(Jobs, BroadcastRootAndReduceLeafFinishAlone) {
  const Program r0 = {Bcast(0, 0), AllReduce(1), StreamSync()};
  const Program r1 = {AllReduce(1), Bcast(0, 0), StreamSync()};
  ExpectHealthy(Comms(2, 2), {Inits(2) + r0, Inits(2) + r1});
  const Program l0 = {AllReduce(1), Collective(Call::kReduce, 0, 1, 0), StreamSync()};
  const Program l1 = {Collective(Call::kReduce, 0, 1, 0), AllReduce(1), StreamSync()};
  ExpectHealthy(Comms(2, 2), {Inits(2) + l0, Inits(2) + l1});
}

TEST(Jobs, SendSendCompletesWhenBuffered) {
  ExpectHealthy(Comms(1, 2), {Program{Init(0), Send(0, 1), Recv(0, 1), StreamSync()},
                              Program{Init(0), Send(0, 0), Recv(0, 0), StreamSync()}});
}

TEST(Jobs, SendsThatNothingBuffersAreASuspicion) {
  // The simulated transport buffers, so the hang is told by hand: both sends posted, none ever
  // done.
  JobModel model;
  std::vector<Program> programs = {Program{Init(0), Send(0, 1), Recv(0, 1), StreamSync()},
                                   Program{Init(0), Send(0, 0), Recv(0, 0), StreamSync()}};
  SimJob job(Comms(1, 2), programs);
  // Hosts only: the launches stay where they are.
  for (int i = 0; i < 12; ++i) {
    for (int p = 0; p < 2; ++p) {
      const std::vector<int> enabled = job.Enabled();
      if (std::find(enabled.begin(), enabled.end(), p) != enabled.end()) job.Take(p);
    }
  }
  ExpectAfterTheThreshold(
      &job, &model,
      {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "unbuffered-send-cycle"});
}

TEST(Jobs, RankThatSleepsIsASuspicionAfterTheThresholdOnly) {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()};
  const Program missing = {Init(0), AllReduce(0), StreamSync(), Sleep()};
  SimJob job(Comms(1, 4), {usual, usual, missing, usual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 4.5);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  job.Rounds(&model, 1.5);
  ExpectVerdict(model.Current(),
                {VerdictKind::kHostBlocked, Confidence::kSuspected, {2}, "host-blocked"});
  EXPECT_EQ(model.Current().main.victim_ranks, (std::vector<int>{0, 1, 3}));
  const Program spins = {Init(0), AllReduce(0), StreamSync(), Spin()};
  ExpectHang(Comms(1, 4), {usual, spins, usual, usual},
             {VerdictKind::kRankNotJoined, Confidence::kSuspected, {1}, "rank-not-joined"}, 6);
}

TEST(Jobs, ALongKernelIsSaidAndIsNoSuspicion) {
  const Program usual = {Init(0), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 2), {usual, Program{Init(0), Kernel(1, true), AllReduce(0), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 4);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  job.Rounds(&model, 6);
  EXPECT_EQ(model.Current().main.summary,
            "A kernel or host function of rank 1 has run for long, and AllReduce #0 on A waits for "
            "that; rank 0 waits.");
  EXPECT_TRUE(AccusesNone(model.Current()));
  job.Rounds(&model, 45, 1);
  ExpectVerdict(model.Current(),
                {VerdictKind::kStuckKernel, Confidence::kSuspected, {1}, "kernel-in-front"});
}

// It has a stack that says what it waits for, so that it is a suspicion at once.
TEST(Jobs, AHostFunctionThatDoesNotReturnIsNamed) {
  const Program usual = {Init(0), HostFunction(1), AllReduce(0), StreamSync()};
  for (const bool all : {false, true}) {
    SimJob job(Comms(1, 2), {all ? usual : Program{Init(0), AllReduce(0), StreamSync()}, usual});
    JobModel model;
    job.Run();
    job.Rounds(&model, 4);
    EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
    job.Rounds(&model, 2);
    ExpectVerdict(model.Current(),
                  {VerdictKind::kHostBlocked, Confidence::kSuspected,
                   all ? std::vector<int>{0, 1} : std::vector<int>{1}, "host-blocked"});
  }
}

TEST(Jobs, OneCollectiveTooMany) {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), Destroy(0), Exit(0)};
  const Program more = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync(), Exit(0)};
  ExpectHang(Comms(1, 3), {usual, more, usual},
             {VerdictKind::kRankNotJoined, Confidence::kConfirmed, {1}, "rank-left"}, 3);
  // Without a destroy, it is the majority that ended well.
  const Program plain = {Init(0), AllReduce(0), StreamSync(), Exit(0)};
  ExpectHang(Comms(1, 3), {plain, more, plain},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"}, 3);
  // In a group, behind one that all have called.
  const Program group = {Init(0), GroupStart(), AllReduce(0), GroupEnd(), StreamSync(), Exit(0)};
  const Program larger = {Init(0),    GroupStart(), AllReduce(0), AllReduce(0),
                          GroupEnd(), StreamSync(), Exit(0)};
  ExpectHang(Comms(1, 3), {group, larger, group},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"}, 3);
  // With two ranks, rank 1 makes a call too many or rank 0 one too few.
  ExpectHang(Comms(1, 2), {plain, more},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {0, 1}, "rank-exited"}, 3);
  // They went on with something else on the same communicator.
  const Program other = {Init(0), AllReduce(0), StreamSync(), Bcast(0, 0), StreamSync(), Exit(0)};
  ExpectHang(Comms(1, 3), {other, more, other},
             {VerdictKind::kMismatch, Confidence::kConfirmed, {1}, "mismatch-kind"}, 1);
  // They sit in finalize, or sleep.
  const Program finalizes = {Init(0), AllReduce(0), StreamSync(), Finalize(0), Sleep()};
  ExpectHang(Comms(1, 3), {finalizes, more, finalizes},
             {VerdictKind::kHostBlocked, Confidence::kSuspected, {0, 2}, ""}, 6);
}

// Rank 1 receives once too often or rank 0 sends once too rarely; rank 2 takes no part in it.
TEST(Jobs, OneTransferTooMany) {
  const Program sends = {Init(0), AllReduce(0), Send(0, 1), StreamSync(), Exit(0)};
  const Program receives = {Init(0), AllReduce(0), Recv(0, 0), Recv(0, 0), StreamSync(), Exit(0)};
  const Program third = {Init(0), AllReduce(0), StreamSync(), Exit(0)};
  ExpectHang(Comms(1, 3), {sends, receives, third},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {0, 1}, "rank-exited"}, 3);
  // A rank that ended badly is at fault, whatever it did not call.
  const Program dies = {Init(0), AllReduce(0), Send(0, 1), StreamSync(), Exit(7)};
  ExpectHang(Comms(1, 3), {dies, receives, third},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {0}, "rank-exited"}, 3);
}

// Rank 0 has exited, rank 1 waits in a call that rank 2 has not made: rank 2 decides who is at
// fault.
TEST(Jobs, AnExitDoesNotBlameWhileOthersMayDecide) {
  const Program plain = {Init(0), AllReduce(0), StreamSync(), Exit(0)};
  const Program more = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync(), Exit(0)};
  const Program away = {Init(0), AllReduce(0), StreamSync(), Sleep()};
  for (const bool ends : {true, false}) {
    SimJob job(Comms(1, 3), {plain, more, away});
    JobModel model;
    job.Run();
    job.Feed(&model);
    job.Rounds(&model, 2);
    EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy) << model.Current().main.summary;
    if (ends) job.End(2, 0, 0);
    job.Rounds(&model, 4);
    // It stays away: either of the others may be at fault.
    ExpectVerdict(
        model.Current(),
        ends ? Want{VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"}
             : Want{VerdictKind::kRankExited, Confidence::kConfirmed, {0, 1}, "rank-exited"});
  }
}

// Rank 1 takes the communicator of all for that of its pair, and goes on; the other members of it
// come no more, since they wait for rank 1 or for each other in what it left out.
TEST(Jobs, CircleThroughACallOfOneAlone) {
  std::vector<SimComm> comms = Comms(3, 4);
  comms[1].members = {0, 1};
  comms[2].members = {1, 3};
  const Program zero = {Init(0), Init(1), AllReduce(1), StreamSync(), AllReduce(0), StreamSync()};
  const Program one = {Init(0), Init(1), Init(2), AllReduce(0), AllReduce(2), StreamSync()};
  const Program two = {Init(0), Sleep(), AllReduce(0), StreamSync()};
  const Program three = {Init(0), Init(2), AllReduce(2), StreamSync(), AllReduce(0), StreamSync()};
  ExpectHang(comms, {zero, one, two, three}, Deadlock({1}, "host-wait-cycle"), 0.7);
  const Program right = {Init(0),      Init(1),      Init(2),      AllReduce(1),
                         AllReduce(2), StreamSync(), AllReduce(0), StreamSync()};
  ExpectHealthy(comms, {zero, right, {Init(0), AllReduce(0), StreamSync()}, three});
}

TEST(Jobs, WitnessesSayWhoDeparts) {
  // A world, and each even rank with the next: the ranks beside the circle count their own pair.
  std::vector<SimComm> comms = Comms(3, 4);
  comms[1].members = {0, 1};
  comms[2].members = {2, 3};
  const auto step = [](int pair, bool world, bool own) {
    Program calls;
    if (world) calls = calls + Program{AllReduce(0)};
    if (own) calls = calls + Program{AllReduce(pair)};
    return calls + Program{StreamSync()};
  };
  const auto rank = [&](int pair, bool world, bool own) {
    return Program{Init(0), Init(pair)} + step(pair, true, true) + step(pair, true, true) +
           step(pair, world, own) + step(pair, true, true);
  };
  const Program first = rank(1, true, true), second = rank(2, true, true);
  ExpectHang(comms, {first, first, rank(2, false, true), second}, Deadlock({2}, "host-wait-cycle"));
  ExpectHang(comms, {first, first, second, rank(2, true, false)}, Deadlock({3}, "host-wait-cycle"));
  // Witnesses that contradict each other, or that never kept step, say nothing.
  const Program once_more = Program{Init(0), Init(1), AllReduce(1), StreamSync()} +
                            step(1, true, true) + step(1, true, true) + step(1, true, true) +
                            step(1, true, true);
  ExpectHang(comms, {once_more, once_more, rank(2, false, true), second},
             Deadlock({2, 3}, "host-wait-cycle"));
  // Three gradients a step, then the loss of all: a rank that takes the loss first has called three
  // less than the witnesses.
  const auto batch = [](int pair, bool early) {
    const Program gradients = {AllReduce(pair), AllReduce(pair), AllReduce(pair)};
    const Program loss = {AllReduce(0), StreamSync()};
    return early ? loss + gradients : gradients + loss;
  };
  const auto trains = [&](int pair, bool early) {
    return Program{Init(0), Init(pair)} + batch(pair, false) + batch(pair, false) +
           batch(pair, early) + batch(pair, false);
  };
  ExpectHang(comms, {trains(1, false), trains(1, false), trains(2, false), trains(2, true)},
             Deadlock({3}, "host-wait-cycle"));
}

TEST(Jobs, SiblingsSayWhichOfTwoDeparts) {
  // Pairs of neighbours, and pairs across them: each process makes one of each, in this order.
  std::vector<SimComm> comms = Comms(5, 4);
  const std::vector<std::vector<int>> members = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
  for (int c = 1; c < 5; ++c) {
    comms[c].members = members[c - 1];
    comms[c].id = c < 3 ? 2 : 3;
  }
  const auto rank = [](int near, int far, Op second) {
    return Program{Init(0),        Init(near),   Init(far),   AllReduce(near),
                   AllReduce(far), StreamSync(), second,      AllReduce(far),
                   StreamSync(),   AllReduce(0), StreamSync()};
  };
  const auto all = [&](Op second_of_3) {
    return std::vector<Program>{rank(1, 3, AllReduce(1)), rank(1, 4, AllReduce(1)),
                                rank(2, 3, AllReduce(2)), rank(2, 4, second_of_3)};
  };
  const auto mismatch = [](std::vector<int> culprits, const char* check) {
    return Want{VerdictKind::kMismatch, Confidence::kConfirmed, std::move(culprits), check};
  };
  ExpectHang(comms, all(AllReduce(2, 1, 7)), mismatch({3}, "mismatch-count"));
  ExpectHang(comms, all(Bcast(2, 0)), mismatch({3}, "mismatch-kind"));
  ExpectHealthy(comms, all(AllReduce(2)));
  // Ranks of another number: nothing says that the pairs play the same part.
  comms[2].id = 7;
  ExpectHang(comms, all(AllReduce(2, 1, 7)), mismatch({2, 3}, "mismatch-count"));
  // A sibling that called something else before plays another part, too.
  comms[2].id = 2;
  std::vector<Program> unlike = all(AllReduce(2, 1, 7));
  unlike[0][3] = unlike[1][3] = AllReduce(1, 1, 9);
  ExpectHang(comms, unlike, mismatch({2, 3}, "mismatch-count"));
  // One of two children of a split.
  comms[1].parent = comms[2].parent = 0;
  comms[2].color = 1;
  comms[1].id = 7;
  std::vector<Program> split = all(AllReduce(2, 1, 7));
  for (int r = 0; r < 4; ++r) split[r][1] = Split(r < 2 ? 1 : 2);
  ExpectHang(comms, split, mismatch({3}, "mismatch-count"));
}

TEST(Jobs, CounterpartsSayWhoDeparts) {
  // A pair's collective, then one of all: two ranks wait for each other, the other pair shows what
  // comes first. It is the first step, so nothing was counted before.
  std::vector<SimComm> comms = Comms(3, 4);
  comms[1].members = {0, 1};
  comms[2].members = {2, 3};
  comms[1].id = comms[2].id = 2;
  const auto rank = [](int pair, bool early) {
    const Program near = {AllReduce(pair), StreamSync()}, all = {AllReduce(0), StreamSync()};
    return Program{Init(0), Init(pair)} + (early ? all + near : near + all);
  };
  ExpectHang(comms, {rank(1, false), rank(1, false), rank(2, false), rank(2, true)},
             Deadlock({3}, "host-wait-cycle"));
  ExpectHealthy(comms, {rank(1, false), rank(1, false), rank(2, false), rank(2, false)});

  // A pair that calls something else has another part in the job.
  const Program apart = {Init(0),      Init(1),      AllReduce(1, 1, 9),
                         StreamSync(), AllReduce(0), StreamSync()};
  ExpectHang(comms, {apart, apart, rank(2, false), rank(2, true)},
             Deadlock({2, 3}, "host-wait-cycle"));

  // Transfers on two rails, of ranks 0 and 2 and of ranks 1 and 3: the same places count.
  std::vector<SimComm> rails = Comms(3, 4);
  rails[1].members = {0, 2};
  rails[2].members = {1, 3};
  rails[1].id = rails[2].id = 2;
  const auto exchange = [](int rail, bool sends_first) {
    const int peer = sends_first ? 1 : 0;
    const Program send = {Send(rail, peer), StreamSync()},
                  receive = {Recv(rail, peer), StreamSync()};
    return Program{Init(0), Init(rail)} + (sends_first ? send + receive : receive + send);
  };
  Program early = {Init(0), Init(1), Recv(1, 1), StreamSync(), Send(1, 1), StreamSync()};
  ExpectHang(rails, {early, exchange(2, true), exchange(1, false), exchange(2, false)},
             Deadlock({0}, "point-to-point-order-cycle"));
  rails[2].id = 7;
  ExpectHang(rails, {early, exchange(2, true), exchange(1, false), exchange(2, false)},
             Deadlock({0, 2}, "point-to-point-order-cycle"));
}

TEST(Jobs, InversionInAGraph) {
  const Program usual = Inits(2) + Program{Graph(1, {AllReduce(0), AllReduce(1)}), StreamSync()};
  const Program other = Inits(2) + Program{Graph(1, {AllReduce(1), AllReduce(0)}), StreamSync()};
  ExpectHang(Comms(2, 2), {usual, other}, Deadlock({0, 1}, "communicator-order-cycle"));
  ExpectHang(Comms(2, 3), {usual, other, usual}, Deadlock({1}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 3), {usual, usual, usual});
  // On two captured streams they hold nobody up.
  const Program apart = Inits(2) + Program{Graph(1, {AllReduce(1), AllReduce(0, 2)}), StreamSync()};
  ExpectHealthy(Comms(2, 2), {usual, apart});
}

TEST(Jobs, GraphsAgainstWhatIsCalled) {
  // Replayed, and calls in between: numbers agree only if each launch counts.
  const Program usual = Inits(2) + Program{AllReduce(0), Graph(1, {AllReduce(0), AllReduce(1)}),
                                           AllReduce(0), Graph(1, {AllReduce(0), AllReduce(1)}),
                                           Bcast(1, 0),  StreamSync()};
  ExpectHealthy(Comms(2, 2), {usual, usual});
  const Program eager = Inits(2) + Program{AllReduce(0), AllReduce(0), AllReduce(1), AllReduce(0),
                                           AllReduce(0), AllReduce(1), Bcast(1, 0),  StreamSync()};
  ExpectHealthy(Comms(2, 2), {usual, eager});
  // One replay is missing: what follows meets it.
  const Program once = Inits(2) + Program{AllReduce(0), Graph(1, {AllReduce(0), AllReduce(1)}),
                                          AllReduce(0), Bcast(1, 0), StreamSync()};
  ExpectHang(Comms(2, 2), {usual, once},
             {VerdictKind::kMismatch, Confidence::kConfirmed, {0, 1}, "mismatch-kind"});
  // A rank that replays once less than the others and goes to sleep.
  const Program replays = Inits(1) + Program{Graph(1, {AllReduce(0)}), StreamSync(),
                                             Graph(1, {AllReduce(0)}), StreamSync()};
  const Program misses = Inits(1) + Program{Graph(1, {AllReduce(0)}), StreamSync(), Sleep()};
  ExpectHang(Comms(1, 3), {replays, replays, misses},
             {VerdictKind::kHostBlocked, Confidence::kSuspected, {2}, ""}, 6);
}

TEST(Jobs, GraphBehindAnotherStream) {
  // A host wait between the launch and the call that the other rank's graph begins with.
  const Program graph = Inits(2) + Program{Graph(1, {AllReduce(0), AllReduce(1)}), StreamSync()};
  const Program waits = Inits(2) + Program{AllReduce(1), StreamSync(), AllReduce(0), StreamSync()};
  ExpectHang(Comms(2, 2), {graph, waits}, Deadlock({0, 1}, "host-wait-cycle"));
  const Program right = Inits(2) + Program{AllReduce(0), StreamSync(), AllReduce(1), StreamSync()};
  ExpectHealthy(Comms(2, 2), {graph, right});
}

TEST(Jobs, VictimsOfTheSameInversionAtALaterStepAreItsVictims) {
  std::vector<SimComm> comms(2);
  comms[0].members = {1, 2};
  comms[1].members = {0, 1, 2};
  const Op reduce = Collective(Call::kReduce, 1, 1, 1);
  SimJob job(comms,
             {Program{Init(1), reduce, AllReduce(1), StreamSync()},
              Inits(2) + Program{reduce, Bcast(0, 0), AllReduce(1), Bcast(0, 0), StreamSync()},
              Inits(2) + Program{Bcast(0, 0), reduce, Bcast(0, 0), AllReduce(1), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.7);
  ExpectVerdict(model.Current(), Deadlock({1, 2}, "communicator-order-cycle"));
  EXPECT_EQ(model.Current().main.victim_ranks, std::vector<int>{0});
}

TEST(Jobs, WindowsInOppositeOrder) {
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{Window(0), Window(1)}, Inits(2) + Program{Window(1), Window(0)}},
             Deadlock({0, 1}, "communicator-call-order"));
  ExpectHang(Comms(2, 3),
             {Inits(2) + Program{Window(0), Window(1)}, Inits(2) + Program{Window(1), Window(0)},
              Inits(2) + Program{Window(0), Window(1)}},
             Deadlock({1}, "communicator-call-order"));
  const Program usual = Inits(2) + Program{Window(0), Window(1), AllReduce(0), StreamSync()};
  ExpectHealthy(Comms(2, 3), {usual, usual, usual});
  // Against an operation that stands behind it.
  ExpectHang(Comms(2, 2),
             {Inits(2) + Program{AllReduce(0), StreamSync(), Window(1)},
              Inits(2) + Program{Window(1), AllReduce(0), StreamSync()}},
             Deadlock({0, 1}, "communicator-call-order"));
  const Program early = Inits(2) + Program{Window(1), AllReduce(0), StreamSync()};
  ExpectHang(Comms(2, 3), {early, Inits(2) + Program{AllReduce(0), StreamSync(), Window(1)}, early},
             Deadlock({1}, "communicator-call-order"));
  ExpectHang(
      Comms(1, 2), {Program{Init(0), Window(0)}, Program{Init(0), Sleep()}},
      {VerdictKind::kRankNotJoined, Confidence::kSuspected, {1}, "communicator-call-missing"}, 6);
}

TEST(Jobs, DestroyedInOppositeOrder) {
  const Program usual = Inits(2) + Program{AllReduce(0), StreamSync(), Destroy(0), Destroy(1)};
  const Program other = Inits(2) + Program{AllReduce(0), StreamSync(), Destroy(1), Destroy(0)};
  // Which release of NCCL runs is not known, and they need not all wait for each other.
  ExpectHang(Comms(2, 2), {usual, other},
             {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "communicator-call-order"},
             8);
  ExpectHealthy(Comms(2, 2), {usual, usual});
  // One destroys early and the other works on: no rank is blamed for a minute.
  for (const int seconds : {50, 70}) {
    SimJob job(Comms(1, 2), {Program{Init(0), Destroy(0)}, Program{Init(0), Sleep()}});
    JobModel model;
    job.Run();
    job.Rounds(&model, seconds, 0.5);
    EXPECT_EQ(model.Current().main.verdict, VerdictKind::kRankNotJoined)
        << model.Current().main.summary;
    EXPECT_EQ(AccusesNone(model.Current()), seconds < 60);
  }
  // Who is gone is not waited for.
  const Program gone = Inits(2) + Program{AllReduce(0), StreamSync(), Exit(0)};
  ExpectHealthy(Comms(2, 2), {usual, gone});
}

TEST(Jobs, ExitedKilledStoppedAborted) {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync(), Exit(0)};
  const Program start = {Init(0), AllReduce(0), StreamSync()};
  auto with = [&](const Op& op) {
    return std::vector<Program>{usual, usual, start + Program{op, Sleep()}, usual};
  };
  ExpectHang(Comms(1, 4), with(Exit(3)),
             {VerdictKind::kRankExited, Confidence::kConfirmed, {2}, "rank-exited"});
  ExpectHang(Comms(1, 4), with(Exit(0)),
             {VerdictKind::kRankExited, Confidence::kConfirmed, {2}, "rank-exited"}, 2);
  ExpectHang(Comms(1, 4), with(Kill(9)),
             {VerdictKind::kRankExited, Confidence::kConfirmed, {2}, "rank-exited"});
  ExpectHang(Comms(1, 4), with(Stop()),
             {VerdictKind::kRankStopped, Confidence::kSuspected, {2}, "rank-stopped"}, 6);
  ExpectHang(Comms(1, 4), with(Abort(0)),
             {VerdictKind::kRankAborted, Confidence::kConfirmed, {2}, "rank-aborted"});
  ExpectHang(Comms(1, 4), {usual, usual, start + Program{Abort(0), Exit(1)}, usual},
             {VerdictKind::kRankAborted, Confidence::kConfirmed, {2}, "rank-aborted"});
  ExpectHealthy(Comms(1, 4), {usual, usual, usual, usual});
}

TEST(Jobs, TheFirstToCrashIsTheCulprit) {
  const Program usual = {Init(0), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 3),
             {Program{Init(0), Kill(11)}, Program{Init(0), AllReduce(0), Exit(1)}, usual});
  job.Run(0);
  JobModel model;
  // Rank 0 first, whatever the seed.
  while (true) {
    const std::vector<int> enabled = job.Enabled();
    if (enabled.empty()) break;
    job.Take(enabled.front());
  }
  job.Rounds(&model, 0.5);
  ExpectVerdict(model.Current(), {VerdictKind::kRankExited, Confidence::kConfirmed, {0}, ""});
}

TEST(Jobs, Mismatches) {
  auto expect = [](Op odd, const char* check, Op base = AllReduce(0)) {
    const Program usual = {Init(0), base, StreamSync()}, other = {Init(0), odd, StreamSync()};
    for (int seed = 1; seed <= kSeeds; ++seed) {
      SimJob job(Comms(1, 3), {usual, other, usual}, false, static_cast<uint64_t>(seed));
      JobModel model;
      job.Run();
      job.Rounds(&model, 0.5);
      ExpectVerdict(model.Current(), {VerdictKind::kMismatch, Confidence::kConfirmed, {1}, check});
      // It stays when the job ends well.
      job.EndJob(&model);
      ExpectVerdict(model.Current(), {VerdictKind::kMismatch, Confidence::kConfirmed, {1}, check});
      // Two of them: nobody can tell who is right.
      SimJob pair(Comms(1, 2), {usual, other}, false, static_cast<uint64_t>(seed));
      JobModel two;
      pair.Run();
      pair.Rounds(&two, 0.5);
      ExpectVerdict(two.Current(), {VerdictKind::kMismatch, Confidence::kConfirmed, {0, 1}, check});
    }
  };
  expect(AllReduce(0, 1, 512), "mismatch-count");
  Op type = AllReduce(0);
  type.datatype = 6;
  expect(type, "mismatch-type");
  Op operation = AllReduce(0);
  operation.reduce_op = 2;
  expect(operation, "mismatch-operator");
  expect(Bcast(0, 1), "mismatch-root", Bcast(0, 0));
  expect(Collective(Call::kAllGather, 0), "mismatch-kind");
}

// Whichever is found first: the one that was made earlier is described.
TEST(Jobs, TwoMismatchesOnOneCommunicator) {
  const Program usual = {Init(0), AllReduce(0), AllReduce(0), StreamSync()};
  const Program later = {Init(0), AllReduce(0), AllReduce(0, 1, 512), StreamSync()};
  const Program earlier = {Init(0), Collective(Call::kAllGather, 0), AllReduce(0), StreamSync()};
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SimJob job(Comms(1, 4), {usual, later, earlier, usual}, false, static_cast<uint64_t>(seed));
    JobModel model;
    job.Run();
    job.Rounds(&model, 0.5);
    const Verdict verdict = model.Current();
    ExpectVerdict(verdict, {VerdictKind::kMismatch, Confidence::kConfirmed, {2}, "mismatch-kind"});
    EXPECT_NE(verdict.main.summary.find("1 more on it after that"), std::string::npos)
        << verdict.main.summary;
  }
}

// Operators alone make wrong data and stop nobody: what does is named, and the operators after it.
TEST(Jobs, OperatorsDoNotHideWhatHangs) {
  Op maximum = AllReduce(0);
  maximum.reduce_op = 2;
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()};
  const Program wrong_data = {Init(0), maximum, StreamSync(), AllReduce(0), StreamSync()};
  const Program too_long = {Init(0), AllReduce(0), StreamSync(), AllReduce(0, 1, 512),
                            StreamSync()};
  const Program too_few = {Init(0), AllReduce(0), StreamSync(), Exit(3)};
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SimJob job(Comms(1, 4), {usual, wrong_data, too_long, usual}, false,
               static_cast<uint64_t>(seed));
    JobModel model;
    job.Run();
    job.Rounds(&model, 0.5);
    const Verdict verdict = model.Current();
    ExpectVerdict(verdict, {VerdictKind::kMismatch, Confidence::kConfirmed, {2}, "mismatch-count"});
    ASSERT_EQ(verdict.findings.size(), 1u);
    EXPECT_EQ(verdict.findings[0].check, "mismatch-operator");
    EXPECT_EQ(verdict.findings[0].culprit_ranks, std::vector<int>{1});
    EXPECT_NE(verdict.findings[0].summary.find("All have completed it."), std::string::npos)
        << verdict.findings[0].summary;
    // However long it is told.
    job.Rounds(&model, 5);
    EXPECT_EQ(model.Current().main.detected_after_s, verdict.main.detected_after_s);
  }
  SimJob job(Comms(1, 4), {usual, wrong_data, too_few, usual}, false);
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  ExpectVerdict(model.Current(),
                {VerdictKind::kRankExited, Confidence::kConfirmed, {2}, "rank-exited"});
  // Beside no stall it is what there is to say.
  ExpectHang(Comms(1, 4), {usual, wrong_data, usual, usual},
             {VerdictKind::kMismatch, Confidence::kConfirmed, {1}, "mismatch-operator"});
}

TEST(Jobs, MismatchInsideTheBlockingFirstCall) {
  SimJob job(Comms(1, 3),
             {Program{Init(0), AllReduce(0), StreamSync()},
              Program{Init(0), AllReduce(0, 1, 7), StreamSync()}, Program{Init(0), Sleep()}},
             true);
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  ExpectVerdict(model.Current(),
                {VerdictKind::kMismatch, Confidence::kConfirmed, {0, 1}, "mismatch-count"});
}

// What all are through with does not hold the job up: the circle behind it does.
TEST(Jobs, ACircleBehindATransferMismatch) {
  const std::vector<Program> programs = {
      Program{Init(0), Init(1), Send(0, 1, 1, 100), StreamSync(), AllReduce(0, 1), StreamSync(),
              AllReduce(1, 1), StreamSync()},
      Program{Init(0), Init(1), Recv(0, 0, 1, 200), StreamSync(), AllReduce(1, 1), StreamSync(),
              AllReduce(0, 1), StreamSync()}};
  SimJob job(Comms(2, 2), programs);
  JobModel model;
  job.Run();
  job.Feed(&model);
  job.Rounds(&model, 3);
  ExpectVerdict(model.Current(),
                {VerdictKind::kDeadlock, Confidence::kConfirmed, {0, 1}, "host-wait-cycle"});
  ASSERT_EQ(model.Current().findings.size(), 1u);
  EXPECT_EQ(model.Current().findings[0].check, "mismatch-transfer");
}

TEST(Jobs, TransferMismatch) {
  ExpectHang(Comms(1, 3),
             {Program{Init(0), Send(0, 1, 1, 100), StreamSync(), AllReduce(0), StreamSync()},
              Program{Init(0), Recv(0, 0, 1, 200), StreamSync(), AllReduce(0), StreamSync()},
              Program{Init(0), Sleep()}},
             {VerdictKind::kMismatch, Confidence::kConfirmed, {0, 1}, "mismatch-transfer"});
}

TEST(Jobs, InitMissing) {
  const Program usual = {Init(0), AllReduce(0), StreamSync()};
  ExpectHang(Comms(1, 3), {usual, usual, Program{Sleep()}},
             {VerdictKind::kInitHang, Confidence::kSuspected, {2}, "communicator-init-missing"}, 6);
  ExpectHealthy(Comms(1, 3), {usual, usual, usual});
  ExpectHang(Comms(1, 3), {usual, usual, Program{Exit(8)}},
             {VerdictKind::kInitHang, Confidence::kSuspected, {2}, "communicator-init-missing"}, 6);
}

TEST(Jobs, InitMissingOfAProcessThatNobodySaw) {
  std::vector<SimComm> comms = Comms(1, 3);
  // The third process exists for the communicator only.
  SimJob job(comms, {Program{Init(0)}, Program{Init(0)}, Program{}});
  JobModel model;
  for (int p = 0; p < 2; ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    model.OnProcessStarted(info);
  }
  job.Run();
  for (int i = 0; i < 70; ++i) {
    job.Advance(100'000'000);
    for (; !job.log.empty(); job.log.erase(job.log.begin())) model.OnRecord(job.log.front());
    Round round = job.MakeRound();
    round.processes.resize(2);
    model.OnRound(round);
  }
  ExpectVerdict(model.Current(),
                {VerdictKind::kInitHang, Confidence::kSuspected, {2}, "communicator-init-missing"});
}

TEST(Jobs, DifferentInitOrder) {
  const Program a = {Init(0), Init(1), AllReduce(0), StreamSync()};
  const Program b = {Init(1), Init(0), AllReduce(0), StreamSync()};
  ExpectHang(Comms(2, 2), {a, b},
             {VerdictKind::kInitHang, Confidence::kConfirmed, {0, 1}, "communicator-init-order"});
  ExpectHang(Comms(2, 4), {a, a, b, a},
             {VerdictKind::kInitHang, Confidence::kConfirmed, {2}, "communicator-init-order"});
  ExpectHealthy(Comms(2, 2), {a, a});
}

TEST(Jobs, DivergentSplit) {
  std::vector<SimComm> comms = Comms(3, 4);
  comms[1].parent = comms[2].parent = 0;
  comms[1].members = {0, 1};
  comms[2].members = {2, 3};
  comms[2].color = 1;
  const Program low = {Init(0), AllReduce(0), Split(1), AllReduce(1), StreamSync()};
  const Program high = {Init(0), AllReduce(0), Split(2), AllReduce(2), StreamSync()};
  ExpectHealthy(comms, {low, low, high, high});
  // Rank 3 takes another branch and uses the parent instead.
  const Program branch = {Init(0), AllReduce(0), AllReduce(0), StreamSync()};
  ExpectHang(comms, {low, low, high, branch},
             {VerdictKind::kInitHang, Confidence::kConfirmed, {3}, "communicator-init-missing"});
  const Program asleep = {Init(0), AllReduce(0), Sleep()};
  ExpectHang(comms, {low, low, high, asleep},
             {VerdictKind::kInitHang, Confidence::kSuspected, {3}, "communicator-init-missing"}, 6);
}

// Ranks 0 and 1 hold each other up; rank 2 waits for the one that has exited, and rank 4 behind it.
TEST(Jobs, WhoWaitsForAnotherReasonIsNoVictimOfAnExit) {
  const std::vector<SimComm> comms = {
      {.members = {0, 1}}, {.members = {0, 1}}, {.members = {2, 3}}, {.members = {2, 4}}};
  SimJob job(comms, {Program{Init(0), Init(1), AllReduce(0), AllReduce(1), StreamSync()},
                     Program{Init(0), Init(1), AllReduce(1), AllReduce(0), StreamSync()},
                     Program{Init(2), Init(3), AllReduce(2), AllReduce(3), StreamSync()},
                     Program{Init(2), Exit(3)}, Program{Init(3), AllReduce(3), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 2);
  const Verdict verdict = model.Current();
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{0, 1}));
  ASSERT_EQ(verdict.findings.size(), 1u);
  const Finding& exit = verdict.findings.front();
  EXPECT_EQ(exit.check, "rank-exited");
  EXPECT_EQ(exit.culprit_ranks, std::vector<int>{3});
  EXPECT_EQ(exit.victim_ranks, (std::vector<int>{2, 4}));
  EXPECT_EQ(exit.summary,
            "Rank 3 has exited with code 3; rank 2 waits in AllReduce #0 on comm {2,3}, and rank 4 "
            "behind it.");
}

}  // namespace
}  // namespace gordian::model
