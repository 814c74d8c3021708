// How sure a verdict is and what it tells: evidence that is missing, assumptions, names, what
// stays.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

bool HasEntry(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return entry.find(part) != entry.npos; });
}

// A polling loop may have a time limit of its own.
TEST(Jobs, PollingCountsAfterAWhileAndIsNamed) {
  const Program a = {AllReduce(0, 1), Record(1, 1), Poll(1), AllReduce(1, 2), DeviceSync()};
  const Program b = {AllReduce(1, 2), Record(1, 2), Poll(1), AllReduce(0, 1), DeviceSync()};
  SimJob job(Comms(2, 2), {Inits(2) + a, Inits(2) + b});
  JobModel model;
  job.Run();
  ExpectAfterTheThreshold(
      &job, &model, {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
  EXPECT_TRUE(HasEntry(model.Current().main.evidence.not_visible, "polling"));
}

const Program kInverted[] = {{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
                             {AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}};

TEST(Jobs, AnotherThreadThatMovesForbidsCertainty) {
  for (const bool moves : {false, true}) {
    SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
    job.other_thread = true;
    job.other_runs = moves;
    JobModel model;
    job.Run();
    job.Rounds(&model, 3);
    EXPECT_EQ(model.Current().main.verdict, moves ? VerdictKind::kHealthy : VerdictKind::kDeadlock);
    if (moves) continue;
    EXPECT_TRUE(model.Current().main.evidence.assumes.empty());
  }
}

// A thread that has called nothing yet sleeps, and may make the call when it wakes.
TEST(Jobs, WhatTimeOrTheOutsideMayWakeForbidsCertainty) {
  struct Case {
    ThreadSleep sleep;
    bool timer;
    bool proven;
    const char* hole;
  };
  for (const Case& c :
       {Case{ThreadSleep::kThread, false, true, ""},
        Case{ThreadSleep::kOutside, false, false, "sleeps in what time or the outside may end"},
        Case{ThreadSleep::kUnknown, false, false, "gordian cannot see in what"},
        Case{ThreadSleep::kThread, true, false, "handles the signal of a timer"}}) {
    SCOPED_TRACE(c.hole);
    SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
    job.other_thread = true;
    job.other_sleep = c.sleep;
    job.timer_signals = c.timer;
    JobModel model;
    job.Run();
    job.Rounds(&model, 4);
    EXPECT_EQ(model.Current().main.verdict,
              c.proven ? VerdictKind::kDeadlock : VerdictKind::kHealthy);
    job.Rounds(&model, 2);
    ExpectVerdict(model.Current(), {VerdictKind::kDeadlock,
                                    c.proven ? Confidence::kConfirmed : Confidence::kSuspected,
                                    {0, 1},
                                    "host-wait-cycle"});
    if (!c.proven) {
      EXPECT_TRUE(HasEntry(model.Current().main.evidence.not_visible, c.hole));
    }
  }
}

// The main thread has made CUDA calls and joins the thread that is in the circle.
TEST(Jobs, AThreadThatOnlyAThreadWakesIsInTheCircle) {
  SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
  job.other_thread = job.other_has_called = true;
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  ExpectVerdict(model.Current(),
                {VerdictKind::kDeadlock, Confidence::kConfirmed, {0, 1}, "host-wait-cycle"});
  // One that wakes between the rounds was not stuck at one moment with the others.
  SimJob naps(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
  naps.other_thread = naps.other_has_called = naps.other_runs = true;
  JobModel watching;
  naps.Run();
  naps.Rounds(&watching, 3);
  EXPECT_EQ(watching.Current().main.verdict, VerdictKind::kHealthy);
}

// It may make the missing call next, so there is no proof; its running holds no suspicion back.
TEST(Jobs, AThreadThatRunsOnBesideACircle) {
  SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
  job.other_thread = job.other_runs = true;
  job.other_sleep = ThreadSleep::kThread;
  JobModel model;
  job.Run();
  ExpectAfterTheThreshold(
      &job, &model, {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
}

// It polls CUDA, and acts when an operation has ended.
TEST(Jobs, AWatchdogCallsOnlyAfterAnOperation) {
  const auto with = [](bool watches, bool other_operation) {
    Program before = Inits(3);
    if (other_operation) before = before + Program{Kernel(5, /*endless=*/true), AllReduce(2, 5)};
    SimJob job(Comms(3, 2), {before + kInverted[0], before + kInverted[1]});
    job.other_thread = job.other_calls_cuda = job.other_runs = true;
    if (watches) {
      job.other_is_library = true;
      job.other_sleep = ThreadSleep::kWatch;
    }
    JobModel model;
    job.Run();
    job.Rounds(&model, 2);
    return model.Current().main;
  };
  const Finding watched = with(true, false);
  EXPECT_EQ(watched.verdict, VerdictKind::kDeadlock);
  EXPECT_EQ(watched.confidence, Confidence::kConfirmed);
  EXPECT_TRUE(HasEntry(watched.evidence.assumes, "no time limit of torch.distributed"));
  EXPECT_EQ(with(false, false).verdict, VerdictKind::kHealthy) << "the thread may do anything";
  EXPECT_EQ(with(true, true).verdict, VerdictKind::kHealthy)
      << "when the kernel ends, so does the operation behind it, and the watchdog may call";
}

// What the rounds of a proof said was not so: the operations end, though nothing was aborted.
TEST(Jobs, ADeadlockThatEndsIsDisproved) {
  SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  ASSERT_EQ(model.Current().main.confidence, Confidence::kConfirmed);
  EXPECT_TRUE(model.Current().disproved.empty());
  Round round = job.MakeRound();
  for (ProcessState& process : round.processes) {
    for (StreamState& stream : process.streams) stream.done = stream.enqueued;
  }
  model.OnRound(std::move(round));
  const Verdict verdict = model.Current();
  ASSERT_EQ(verdict.disproved.size(), 1u);
  EXPECT_EQ(verdict.disproved[0].check, "host-wait-cycle");
  EXPECT_FALSE(verdict.main.verdict == VerdictKind::kDeadlock &&
               verdict.main.confidence == Confidence::kConfirmed);
}

// gordian ended the job for its verdict: what the end looks like takes nothing back.
TEST(Jobs, WhatGordianKilledForStays) {
  SimJob job(Comms(2, 2), {Inits(2) + kInverted[0], Inits(2) + kInverted[1]});
  job.other_thread = true;
  job.other_sleep = ThreadSleep::kOutside;
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  ASSERT_EQ(model.Current().main.confidence, Confidence::kSuspected);
  Round round = job.MakeRound();
  for (ProcessState& process : round.processes) {
    for (StreamState& stream : process.streams) stream.done = stream.enqueued;
  }
  model.OnRound(std::move(round));
  model.OnJobEnded(ExitKind::kSignal, 9, job.now(), /*killed_by_gordian=*/true);
  ExpectVerdict(model.Current(),
                {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
}

// A host function that runs may wake the thread that makes the call.
TEST(Jobs, AHostFunctionMayWakeASleeper) {
  for (const bool pending : {false, true}) {
    Program first = Inits(2);
    if (pending) first.push_back(HostFunction(3));
    SimJob job(Comms(2, 2), {first + kInverted[0], Inits(2) + kInverted[1]});
    job.other_thread = true;
    JobModel model;
    job.Run();
    job.Rounds(&model, 1);
    EXPECT_EQ(model.Current().main.verdict,
              pending ? VerdictKind::kHealthy : VerdictKind::kDeadlock);
  }
}

// Threads that call CUDA alone, as those that poll events or copy data do, are no reason to say that
// no rank comes.
TEST(Jobs, ACircleBesideAThreadThatCallsCudaIsASuspicion) {
  const std::vector<Program> programs = {
      Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}};
  SimJob job(Comms(2, 2), programs);
  job.other_thread = job.other_calls_cuda = job.other_runs = true;
  job.other_sleep = ThreadSleep::kOutside;
  JobModel model;
  job.Run();
  job.Rounds(&model, 7);
  const Verdict verdict = model.Current();
  ExpectVerdict(verdict,
                {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
  EXPECT_TRUE(HasEntry(verdict.main.evidence.assumes, "threads that have called no NCCL"));
  for (const Finding& finding : verdict.findings) EXPECT_NE(finding.check, "rank-not-joined");
}

// Nor are those that spin until a host function behind an operation sets a flag.
TEST(Jobs, ACircleThroughAFlagOfAHostFunctionIsASuspicion) {
  const auto program = [](int first) {
    return Inits(2) + Program{AllReduce(first), FlagFunction(1, 1), Spin()};
  };
  SimJob job(Comms(2, 2), {program(0), program(1)});
  JobModel model;
  job.Run();
  job.Rounds(&model, 17);
  ExpectVerdict(model.Current(),
                {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"});
  EXPECT_TRUE(HasEntry(model.Current().main.evidence.assumes, "host functions"));
}

// As PyTorch's autograd threads: they have called NCCL, and wait for more to do.
TEST(Jobs, ACircleBesideAThreadThatSleepsIsASuspicion) {
  const std::vector<Program> programs = {
      Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}};
  for (const bool naps : {false, true}) {
    SimJob job(Comms(2, 2), programs);
    job.other_thread = job.other_has_called = true;
    job.other_sleep = ThreadSleep::kOutside;
    job.other_sleep = ThreadSleep::kOutside;
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
  job.other_sleep = ThreadSleep::kOutside;
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
  job.other_sleep = ThreadSleep::kOutside;
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

bool Also(const Verdict& verdict, const char* check) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                     [&](const Finding& finding) { return finding.check == check; });
}

// All are through a mismatch, and then wait for a rank that does not come: that is the finding.
TEST(Jobs, AHangIsSaidBeforeAMismatchThatIsOver) {
  const Program other = {Init(0), AllReduce(0, 1, 512), StreamSync(), AllReduce(0), StreamSync()};
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()};
  const Program absent = {Init(0), AllReduce(0), StreamSync(), Sleep()};
  ExpectHang(Comms(1, 3), {other, usual, absent},
             {VerdictKind::kHostBlocked, Confidence::kSuspected, {2}, "host-blocked"}, 7);
  SimJob job(Comms(1, 3), {other, usual, absent});
  JobModel model;
  job.Run();
  job.Rounds(&model, 7);
  EXPECT_TRUE(Also(model.Current(), "mismatch-count")) << model.Current().main.summary;
}

// Nothing but the mismatch explains that a later operation does not end: the finding says both.
TEST(Jobs, AMismatchThatHoldsALaterOperationSaysSo) {
  const Program other = {Init(0), AllReduce(0, 1, 512), AllReduce(0), StreamSync()};
  const Program usual = {Init(0), AllReduce(0), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 3), {other, usual, usual});
  job.held_comm = 0;
  JobModel model;
  job.Run();
  job.Rounds(&model, 7);
  const Finding finding = model.Current().main;
  EXPECT_EQ(finding.check, "mismatch-count") << finding.summary;
  EXPECT_NE(finding.summary.find("All have completed it, and AllReduce #1, which all have issued "
                                 "since, does not end."),
            std::string::npos)
      << finding.summary;
  EXPECT_FALSE(IsOver(finding));
}

}  // namespace
}  // namespace gordian::model
