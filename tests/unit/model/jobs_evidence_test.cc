// How sure a verdict is and what it tells: evidence that is missing, assumptions, names, what
// stays.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

TEST(Jobs, PollingCountsAfterAWhileAndIsNamed) {
  const Program a = {AllReduce(0, 1), Record(1, 1), Poll(1), AllReduce(1, 2), DeviceSync()};
  const Program b = {AllReduce(1, 2), Record(1, 2), Poll(1), AllReduce(0, 1), DeviceSync()};
  ExpectHang(Comms(2, 2), {Inits(2) + a, Inits(2) + b}, Deadlock({0, 1}, "host-wait-cycle"), 1.5);
  SimJob job(Comms(2, 2), {Inits(2) + a, Inits(2) + b});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.4);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  job.Rounds(&model, 1);
  const std::vector<std::string> assumes = model.Current().main.evidence.assumes;
  EXPECT_NE(std::find_if(assumes.begin(), assumes.end(),
                         [](const auto& s) { return s.find("polling") != s.npos; }),
            assumes.end());
}

TEST(Jobs, AnotherThreadThatMovesForbidsCertainty) {
  const std::vector<Program> programs = {
      Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}};
  for (const bool moves : {false, true}) {
    SimJob job(Comms(2, 2), programs);
    job.other_thread = true;
    job.other_runs = moves;
    JobModel model;
    job.Run();
    job.Rounds(&model, 3);
    EXPECT_EQ(model.Current().main.verdict, moves ? VerdictKind::kHealthy : VerdictKind::kDeadlock);
    if (moves) continue;
    EXPECT_EQ(model.Current().main.evidence.assumes.front(), "no other thread of rank 0 calls");
  }
}

// As PyTorch's autograd threads: they have called NCCL, and wait for more to do.
TEST(Jobs, ACircleBesideAThreadThatSleepsIsASuspicion) {
  const std::vector<Program> programs = {
      Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}};
  for (const bool naps : {false, true}) {
    SimJob job(Comms(2, 2), programs);
    job.other_thread = job.other_has_called = true;
    job.other_runs = naps;
    JobModel model;
    job.Run();
    job.Rounds(&model, 4);
    EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
    job.Rounds(&model, 2);
    const Verdict verdict = model.Current();
    if (naps) {  // it does something of its own: whoever waits for its rank does not know more
      EXPECT_NE(verdict.main.verdict, VerdictKind::kDeadlock) << verdict.main.summary;
      continue;
    }
    ExpectVerdict(verdict,
                  {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
    const auto& assumes = verdict.main.evidence.assumes;
    EXPECT_NE(
        std::find(assumes.begin(), assumes.end(),
                  "the threads of rank 0 that sleep outside of NCCL and CUDA do not make the call"),
        assumes.end());
  }
}

// Whoever only sleeps is no part of a circle.
TEST(Jobs, ARankThatSleepsIsInNoCircle) {
  SimJob job(Comms(1, 2),
             {Inits(1) + Program{AllReduce(0), StreamSync()}, Inits(1) + Program{Sleep()}});
  job.other_thread = job.other_has_called = true;
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  ExpectVerdict(model.Current(),
                {VerdictKind::kHostBlocked, Confidence::kSuspected, {1}, "host-blocked"});
}

// A thread that sleeps mostly waits for one of its own process: it is the rank behind that is in
// the way.
TEST(Jobs, WhoSleepsBesideAThreadThatWaitsIsNotTheCause) {
  std::vector<SimComm> comms = Comms(2, 3);
  comms[0].members = {0, 2};
  comms[1].members = {0, 1};
  SimJob job(comms, {{Init(0), Init(1), AllReduce(1), StreamSync(), AllReduce(0), StreamSync()},
                     {Init(1), Sleep()},
                     {Init(0), AllReduce(0), StreamSync()}});
  job.other_thread = job.other_has_called = true;
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  ExpectVerdict(model.Current(),
                {VerdictKind::kHostBlocked, Confidence::kSuspected, {1}, "host-blocked"});
}

TEST(Jobs, SilentProcessForbidsCertainty) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  job.answers = false;
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  job.Rounds(&model, 5);
  ExpectVerdict(model.Current(), {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, ""});
  EXPECT_FALSE(model.Current().main.evidence.not_visible.empty());
  job.answers = true;
  job.Rounds(&model, 0.3);
  ExpectVerdict(model.Current(), {VerdictKind::kDeadlock, Confidence::kConfirmed, {0, 1}, ""});
}

TEST(Jobs, RanksOfTheEnvironmentAreUsed) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  job.env = {{0, {7, 8}}, {1, {3, 8}}};
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  const Verdict verdict = model.Current();
  ExpectVerdict(verdict, {VerdictKind::kDeadlock, Confidence::kConfirmed, {3, 7}, ""});
  EXPECT_EQ(verdict.main.evidence.ranks_seen, 2);
  EXPECT_EQ(verdict.main.evidence.ranks_expected, 8);
}

TEST(Jobs, SummarySaysWhoWaitsForWhom) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  EXPECT_EQ(model.Current().main.summary,
            "Ranks 0 and 1 wait for each other: rank 0 is in AllReduce #0 on A and has not reached "
            "AllReduce #0 on B; rank 1 is in AllReduce #0 on B and has not reached AllReduce #0 on "
            "A.");
}

TEST(Jobs, NothingSeenIsNotHealthy) {
  JobModel model;
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kInconclusive);
  // A job that has only just begun has had no time for a call.
  Round round;
  round.begin_ns = round.end_ns = 1'000'000'000;
  model.OnRound(round);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  EXPECT_EQ(model.Current().main.confidence, Confidence::kSuspected);
  round.begin_ns = round.end_ns = 7'000'000'000;
  model.OnRound(round);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kInconclusive);
  model.OnJobEnded(ExitKind::kCode, 0, 8'000'000'000, false);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kInconclusive);
}

// NCCL takes a collective of nothing and launches nothing: others need not come to it.
TEST(Jobs, ACollectiveOfNothingHoldsNobodyUp) {
  for (const bool grouped : {false, true}) {
    Program forth = Inits(2), back = Inits(2);
    auto add = [&](Program* program, const Op& op) {
      if (grouped) program->push_back(GroupStart());
      program->push_back(op);
      if (grouped) program->push_back(GroupEnd());
    };
    add(&forth, AllReduce(0, 1, 0));
    add(&forth, AllReduce(1));
    add(&back, AllReduce(1));
    add(&back, AllReduce(0, 1, 0));
    forth.push_back(StreamSync());
    back.push_back(StreamSync());
    SimJob job(Comms(2, 2), {forth, back});
    JobModel model;
    job.Run();
    job.Rounds(&model, 1);
    EXPECT_STREQ(Name(model.Current().main.verdict), "healthy") << model.Current().main.summary;
  }
  // With somebody who passes something it is a mismatch, whatever comes of it.
  SimJob job(Comms(1, 2), {Inits(1) + Program{AllReduce(0, 1, 0), StreamSync()},
                           Inits(1) + Program{AllReduce(0, 1, 5), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  ExpectVerdict(model.Current(),
                {VerdictKind::kMismatch, Confidence::kConfirmed, {0, 1}, "mismatch-count"});
}

TEST(Jobs, TwoCirclesAreNotVictimsOfEachOther) {
  std::vector<SimComm> comms = Comms(4, 4);
  comms[0].members = comms[1].members = {0, 1};
  comms[2].members = comms[3].members = {2, 3};
  auto program = [](int first, int second) {
    return Program{Init(std::min(first, second)), Init(std::max(first, second)), AllReduce(first),
                   AllReduce(second), StreamSync()};
  };
  SimJob job(comms, {program(0, 1), program(1, 0), program(2, 3), program(3, 2)});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  const Verdict verdict = model.Current();
  ASSERT_EQ(verdict.findings.size(), 1u);
  for (const Finding& finding : {verdict.main, verdict.findings[0]}) {
    EXPECT_EQ(finding.verdict, VerdictKind::kDeadlock);
    EXPECT_EQ(finding.culprit_ranks.size(), 2u);
    EXPECT_TRUE(finding.victim_ranks.empty()) << finding.summary;
    EXPECT_EQ(finding.operations.size(), 2u);
  }
}

TEST(Jobs, AnInversionOfEveryStepIsOneFinding) {
  Program usual = Inits(2), odd = Inits(2);
  for (int i = 0; i < 5; ++i) {
    usual = usual + Program{AllReduce(0), AllReduce(1)};
    odd = odd + Program{AllReduce(1), AllReduce(0)};
  }
  for (Program* program : {&usual, &odd}) program->push_back(StreamSync());
  SimJob job(Comms(2, 3), {usual, usual, odd});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  const Verdict verdict = model.Current();
  ExpectVerdict(verdict, {VerdictKind::kDeadlock, Confidence::kConfirmed, {2}, ""});
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 1}));
  EXPECT_TRUE(verdict.findings.empty()) << verdict.findings[0].summary;
}

TEST(Jobs, FurtherMismatchesAreCountedByOperation) {
  Program usual = Inits(1), odd = Inits(1);
  for (int i = 0; i < 3; ++i) {
    usual.push_back(AllReduce(0, 1, 8));
    odd.push_back(AllReduce(0, 1, 9));
  }
  SimJob job(Comms(1, 4), {usual, usual, odd, odd});
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  const std::string summary = model.Current().main.summary;
  EXPECT_NE(summary.find(" 2 more on it"), std::string::npos) << summary;
}

TEST(Jobs, ConfirmedStaysWhenTheJobIsKilled) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.5);
  for (ProcessId p : {1u, 2u}) model.OnProcessEnded(p, ExitKind::kSignal, 9, job.now());
  model.OnJobEnded(ExitKind::kSignal, 9, job.now(), true);
  ExpectVerdict(model.Current(), {VerdictKind::kDeadlock, Confidence::kConfirmed, {0, 1}, ""});
  EXPECT_FALSE(model.HasUnfinished());
}

TEST(Jobs, ConfirmationTakesTwoRounds) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.1, 0.1);
  EXPECT_TRUE(model.WantsConfirmation());
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kHealthy);
  job.Rounds(&model, 0.1, 0.1);
  EXPECT_FALSE(model.WantsConfirmation());
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kDeadlock);
}

}  // namespace
}  // namespace gordian::model
