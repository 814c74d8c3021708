// What orders operations of different communicators: NCCL_LAUNCH_ORDER_IMPLICIT (W8), and, as a
// conjecture, hardware queues and multiprocessors (W6).
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

// Rank 0's second operation of A waits on its stream behind the first; B, called after it, starts
// after it.
const Program kBehind =
    Inits(2) + Program{AllReduce(0, 1), AllReduce(0, 1), AllReduce(1, 2), DeviceSync()};
const Program kFirst =
    Inits(2) + Program{AllReduce(1, 1), AllReduce(0, 1), AllReduce(0, 1), DeviceSync()};

TEST(LaunchOrder, ImplicitOrderHoldsUpStarts) {
  const auto ordered = [](SimJob* job) { job->launch_order = true; };
  ExpectHang(Comms(2, 2), {kBehind, kFirst}, Deadlock({0, 1}, "communicator-order-cycle"), 0.7,
             false, ordered);
  ExpectHealthy(Comms(2, 2), {kBehind, kFirst});
  // It does not make one wait for the other's end.
  ExpectHealthy(Comms(2, 2),
                {Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
                 Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}},
                false, ordered);
}

Want Suspected(const char* check) {
  return {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, check};
}

bool Assumes(const Finding& finding, const std::string& part) {
  for (const std::string& text : finding.evidence.assumes) {
    if (text.find(part) != text.npos) return true;
  }
  return false;
}

TEST(Resources, ASharedQueueIsASuspicion) {
  const auto narrow = [](SimJob* job) { job->one_queue = true; };
  ExpectHang(Comms(2, 2), {kBehind, kFirst}, Suspected("resource-cycle"), 8, false, narrow);
  ExpectHealthy(Comms(2, 2), {kBehind, kFirst});
  SimJob job(Comms(2, 2), {kBehind, kFirst});
  narrow(&job);
  JobModel model;
  job.Run();
  job.Rounds(&model, 4);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);  // too early to say
  job.Rounds(&model, 60);
  EXPECT_EQ(model.Current().main.confidence, Confidence::kSuspected);
  EXPECT_TRUE(Assumes(model.Current().main, "hardware queues"));
  EXPECT_TRUE(model.Current().findings.empty());
}

// With one operation at a time on each device some orders of starts hang; each gets the suspicion.
void ExpectNoRoom(const std::vector<Program>& programs) {
  ExpectHealthy(Comms(2, 2), programs);
  int hangs = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimJob job(Comms(2, 2), programs, false, seed);
    job.processors = 1;
    JobModel model;
    job.Run();
    job.Rounds(&model, 8);
    if (job.Unfinished().empty()) continue;
    ++hangs;
    ExpectVerdict(model.Current(), Suspected("resource-cycle"));
    EXPECT_TRUE(Assumes(model.Current().main, "multiprocessors"));
  }
  EXPECT_GT(hangs, 0);
}

// It hangs if each rank starts the operation first that it called first.
TEST(Resources, OperationsThatLeaveEachOtherNoRoom) {
  ExpectNoRoom({Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
                Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}});
}

// Rank 0 issues the operation of B later than that of A, before which its stream had other work, and
// the device starts it first; rank 1 does so after that of A.
TEST(Resources, AnOperationThatOvertakesOneLeavesItNoRoom) {
  const Program waits = Inits(2) + Program{AllReduce(0, 2), StreamSync(2), AllReduce(0, 2)};
  ExpectNoRoom({waits + Program{AllReduce(1, 3), DeviceSync()},
                waits + Program{Record(2, 2), WaitEvent(2, 3), AllReduce(1, 3), DeviceSync()}});
}

// Queues and multiprocessors explain nothing while something else may.
TEST(Resources, AreNotBlamedForARankThatIsLate) {
  const Program late = Inits(2) + Program{Spin()};
  SimJob job(Comms(2, 2), {kBehind, late});
  job.one_queue = true;
  JobModel model;
  job.Run();
  job.Rounds(&model, 30);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kRankNotJoined)
      << model.Current().main.summary;
}

// Nor for one that sleeps, which is why nothing ends here.
TEST(Resources, AreNotBlamedForARankThatSleeps) {
  const Program both = Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync(), Sleep()};
  const Program other = Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync(), Sleep()};
  const Program late = Inits(2) + Program{Sleep()};
  SimJob job(Comms(2, 3), {both, other, late});
  JobModel model;
  job.Run();
  job.Rounds(&model, 30);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHostBlocked)
      << model.Current().main.summary;
  EXPECT_EQ(model.Current().main.culprit_ranks, std::vector<int>{2});
}

// What waits for a value in memory has not started, and holds nothing that the writer needs: that
// this one does not end has another reason.
TEST(Resources, AreNotHeldByWhatCannotStart) {
  const Program writes = Inits(2) + Program{WaitValue(1, 1), AllReduce(0, 1), AllReduce(1, 2),
                                            WriteValue(1, 2), DeviceSync()};
  const Program waits = Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()};
  SimJob job(Comms(2, 2), {writes, waits});
  for (bool moved = true;
       std::exchange(moved, false);) {  // the hosts alone: nothing on the devices starts
    for (const int transition : job.Enabled()) {
      if (transition < 0 || transition >= 2) continue;
      job.Take(transition);
      moved = true;
      break;
    }
  }
  JobModel model;
  job.Rounds(&model, 60);
  const Verdict verdict = model.Current();
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kStuckKernel) << verdict.main.summary;
  for (const Finding& finding : verdict.findings)
    EXPECT_NE(finding.check, "resource-cycle") << finding.summary;
}

}  // namespace
}  // namespace gordian::model
