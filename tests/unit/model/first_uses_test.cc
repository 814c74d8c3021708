// First uses of communicators that are captured into graphs: they connect in the call, as those do
// that are called.
#include <gtest/gtest.h>

#include "tests/unit/model/sim/jobs_harness.h"
#include "tests/unit/model/sim/one_thread.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

TEST(Jobs, WhatIsCapturedConnectsToo) {
  const Program first =
      Inits(2) + Program{Graph(1, {AllReduce(0, 1), AllReduce(1, 1)}, 1), DeviceSync()};
  const Program reversed =
      Inits(2) + Program{Graph(1, {AllReduce(1, 1), AllReduce(0, 1)}, 1), DeviceSync()};
  // Warm, nothing waits before the graphs are launched.
  ExpectHang(Comms(2, 2), {first, reversed}, Deadlock({0, 1}, "first-use-order-cycle"), 0.7,
             /*cold=*/true);
  ExpectHang(Comms(2, 2), {first, reversed}, Deadlock({0, 1}, "communicator-order-cycle"));
  ExpectHealthy(Comms(2, 2), {first, first}, /*cold=*/true);
  // It does not matter which of the first uses are captured.
  const Program calls = Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 1), DeviceSync()};
  ExpectHealthy(Comms(2, 2), {first, calls}, /*cold=*/true);
  const Program called_reversed =
      Inits(2) + Program{AllReduce(1, 1), AllReduce(0, 1), DeviceSync()};
  ExpectHang(Comms(2, 2), {first, called_reversed}, Deadlock({0, 1}, "first-use-order-cycle"), 0.7,
             /*cold=*/true);
}

TEST(Jobs, WhoCapturesTheFirstUsesTheOtherWayRound) {
  const auto graph = [](int one, int other) {
    return Inits(2) + Program{Graph(1, {AllReduce(one, 1), AllReduce(other, 1)}, 1), DeviceSync()};
  };
  const Program calls = Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 1), DeviceSync()};
  ExpectHang(Comms(2, 3), {graph(0, 1), graph(0, 1), graph(1, 0)},
             Deadlock({2}, "first-use-order-cycle"), 0.7, /*cold=*/true);
  ExpectHang(Comms(2, 3), {calls, graph(0, 1), graph(1, 0)}, Deadlock({2}, "first-use-order-cycle"),
             0.7, /*cold=*/true);
}

// A call that captures for the preemptive runtime may take long, and connects nothing.
TEST(Jobs, WhatTheRuntimeHasConnectsNothingInACapture) {
  const Program first =
      Inits(2) + Program{AllReduce(0), Graph(1, {AllReduce(0, 1)}, 1), AllReduce(1), StreamSync()};
  const Program second =
      Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync(), AllReduce(0), StreamSync()};
  for (const bool by_runtime : {true, false}) {
    SimJob job(Comms(2, 2), {first, second}, /*cold=*/true);
    job.slow_capture = 0;
    if (by_runtime) job.elsewhere = {0};
    JobModel model;
    job.Run();
    job.Feed(&model);
    job.Rounds(&model, 3);
    EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy) << model.Current().main.summary;
  }
}

TEST(Jobs, WhatIsCapturedConnectsWithAPeer) {
  const auto graph = [](Op one, Op other) {
    return Inits(2) + Program{Graph(1, {one, other}, 1), DeviceSync()};
  };
  const Program sends = graph(Send(0, 1, 1), Send(1, 1, 1));
  ExpectHang(Comms(2, 2), {sends, graph(Recv(1, 0, 1), Recv(0, 0, 1))},
             Deadlock({0, 1}, "first-use-order-cycle"), 0.7, /*cold=*/true);
  ExpectHealthy(Comms(2, 2), {sends, graph(Recv(0, 0, 1), Recv(1, 0, 1))}, /*cold=*/true);
}

// Ranks of one thread are no ranks that wait for each other: the thread left out the group.
TEST(Jobs, OneThreadOfSeveralRanksNeedsAGroup) {
  const Verdict verdict = OneThreadForAllRanks(3);
  EXPECT_EQ(verdict.main.check, "group-missing");
  EXPECT_EQ(verdict.main.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(verdict.main.summary.find("for ranks 0, 1 and 2"), std::string::npos)
      << verdict.main.summary;
  ASSERT_EQ(verdict.main.cycle.size(), 1u);
  EXPECT_EQ(verdict.main.cycle[0].waits_for_rank, 1) << "not itself";
}

TEST(Jobs, AnotherThreadOfTheProcessMayHaveTheOtherRanks) {
  EXPECT_NE(OneThreadForAllRanks(3, /*helper=*/true).main.check, "group-missing");
}

}  // namespace
}  // namespace gordian::model
