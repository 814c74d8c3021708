// Who waits gives up sooner or later: what was suspected is not withdrawn for that, and the first
// to give up is not blamed.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"
#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

const Program kUsual = {Init(0), AllReduce(0), StreamSync()};

// Rank 2 of four does not come.
struct Waiting {
  SimJob job{Comms(1, 4), {kUsual, kUsual, Program{Init(0), Sleep()}, kUsual}};
  JobModel model;

  Waiting() {
    job.Run();
    job.Rounds(&model, 6);
  }
  void ExpectStands() {
    const Verdict verdict = model.Current();
    ExpectVerdict(verdict,
                  {VerdictKind::kHostBlocked, Confidence::kSuspected, {2}, "host-blocked"});
    EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 1, 3}));
  }
};

TEST(GivingUp, AWatchdogEndsOneThatWaits) {
  for (const int signal : {SIGABRT, SIGKILL, SIGTERM, 0}) {
    SCOPED_TRACE(signal);
    Waiting waiting;
    waiting.ExpectStands();
    waiting.job.End(0, signal, 1);
    for (int i = 0; i < 20; ++i) {
      waiting.job.Rounds(&waiting.model, 1);
      waiting.ExpectStands();
    }
    for (const Finding& finding : waiting.model.Current().findings)
      EXPECT_EQ(finding.confidence, Confidence::kPossible) << finding.summary;
    waiting.job.EndJob(&waiting.model, 1);
    waiting.ExpectStands();
  }
}

TEST(GivingUp, EverybodyIsEnded) {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}}) {
    Waiting waiting;
    for (const int rank : order) {
      waiting.job.End(rank, SIGTERM);
      waiting.job.Rounds(&waiting.model, 0.2);
    }
    waiting.job.Rounds(&waiting.model, 0.3);
    waiting.job.EndJob(&waiting.model, 143);
    waiting.ExpectStands();
  }
}

// A process that crashes does so whether or not it waits.
TEST(GivingUp, ACrashIsNoGivingUp) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) {
    Waiting waiting;
    waiting.job.End(0, signal);
    waiting.job.Rounds(&waiting.model, 5);
    ExpectVerdict(waiting.model.Current(),
                  {VerdictKind::kRankExited, Confidence::kConfirmed, {0}, "rank-exited"});
  }
}

// The one that is waited for ends: nothing else is to be said.
TEST(GivingUp, TheCulpritEnds) {
  Waiting waiting;
  waiting.job.End(2, SIGKILL);
  waiting.job.Rounds(&waiting.model, 5);
  ExpectVerdict(waiting.model.Current(),
                {VerdictKind::kRankExited, Confidence::kConfirmed, {2}, "rank-exited"});
  EXPECT_TRUE(waiting.model.Current().findings.empty());
}

// Nobody was suspected yet: the one that ended is all that is known.
TEST(GivingUp, BeforeASuspicion) {
  SimJob job(Comms(1, 4), {kUsual, kUsual, Program{Init(0), Sleep()}, kUsual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 2);
  job.End(0, SIGABRT);
  job.Rounds(&model, 5);
  ExpectVerdict(model.Current(),
                {VerdictKind::kRankExited, Confidence::kConfirmed, {0}, "rank-exited"});
}

// It came after all, late.
TEST(GivingUp, TheCulpritGoesOn) {
  SimJob job(Comms(1, 3), {kUsual, kUsual, kUsual});
  JobModel model;
  const auto others_move = [&] {
    for (;;) {
      int next = -1;
      bool found = false;
      for (const int transition : job.Enabled()) {
        if (transition == 2) continue;  // the host of rank 2
        next = transition;
        found = true;
        break;
      }
      if (!found) return;
      job.Take(next);
    }
  };
  for (int i = 0; i < 2; ++i) job.Take(2);  // begins to make the communicator
  others_move();
  if (const std::vector<int> enabled = job.Enabled();
      std::find(enabled.begin(), enabled.end(), 2) != enabled.end()) {
    // Out of the call, and no further.
    job.Take(2);
    others_move();
  }
  job.Rounds(&model, 30);
  ASSERT_TRUE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
  ASSERT_EQ(model.Current().main.culprit_ranks, std::vector<int>{2})
      << model.Current().main.summary;
  job.End(0, SIGABRT);
  job.Rounds(&model, 1);
  EXPECT_EQ(model.Current().main.culprit_ranks, std::vector<int>{2})
      << model.Current().main.summary;
  job.Run();  // rank 0 had started its part, so that the all-reduce ends
  job.Rounds(&model, 5);
  EXPECT_FALSE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
}

// Their own watchdogs end all ranks, with whatever code: the job did not go on.
TEST(GivingUp, WatchdogsEndTheJob) {
  for (const int code : {0, 1}) {
    Waiting waiting;
    for (const int rank : {0, 1, 3, 2}) waiting.job.End(rank, 0, code);
    waiting.job.EndJob(&waiting.model, code);
    waiting.ExpectStands();
    const std::string summary = waiting.model.Current().main.summary;
    EXPECT_NE(summary.find("The job has ended"), std::string::npos) << summary;
  }
}

// The awaited rank came before the end, if only between two rounds: there is nothing left to say.
TEST(GivingUp, TheJobEndsWell) {
  const Program late = {Init(0), Nap(20'000'000'000), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 4), {kUsual, kUsual, late, kUsual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  EXPECT_TRUE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
  ASSERT_TRUE(job.Wake());
  job.Run();
  ASSERT_TRUE(job.Unfinished().empty());
  for (const int rank : {0, 1, 2, 3}) job.End(rank, 0);
  job.EndJob(&model, 0);
  EXPECT_FALSE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
}

// What rank 1 does at last is no call of NCCL: that the others' waits have ended tells of it.
TEST(GivingUp, TheWaitsEndWithoutACallOfNccl) {
  const Program gated = {Init(0),          WaitValue(0, 1), AllReduce(0), Nap(20'000'000'000),
                         WriteValue(0, 2), StreamSync()};
  for (const bool between : {true, false}) {  // a round between the ends of the ranks
    SCOPED_TRACE(between);
    SimJob job(Comms(1, 3), {kUsual, gated, kUsual});
    JobModel model;
    job.Run();
    job.Rounds(&model, 6);
    ASSERT_TRUE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
    ASSERT_EQ(model.Current().main.culprit_ranks, std::vector<int>{1})
        << model.Current().main.summary;
    ASSERT_TRUE(job.Wake());
    job.Run();
    ASSERT_TRUE(job.Unfinished().empty());
    job.End(0, 0);
    if (between) {
      job.Rounds(&model, 0.2);
      EXPECT_FALSE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
    }
    for (const int rank : {1, 2}) job.End(rank, 0);
    job.EndJob(&model, 0);
    EXPECT_FALSE(SaysTrouble(model.Current().main.verdict)) << model.Current().main.summary;
  }
}

}  // namespace
}  // namespace gordian::model
