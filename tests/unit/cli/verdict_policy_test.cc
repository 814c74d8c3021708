#include "cli/run/verdict_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gordian::cli {
namespace {

using model::Confidence;
using model::VerdictKind;
using Say = VerdictPolicy::Say;

constexpr uint64_t kSecond = 1'000'000'000;

model::Verdict Make(VerdictKind kind, Confidence confidence = Confidence::kConfirmed) {
  model::Verdict verdict;
  verdict.main.verdict = kind;
  verdict.main.confidence = confidence;
  verdict.main.check = "check";
  return verdict;
}

TEST(ExitCodeOfVerdict, FollowsTheTable) {
  EXPECT_EQ(ExitCodeOfVerdict(Make(VerdictKind::kHealthy)), 0);
  EXPECT_EQ(ExitCodeOfVerdict(Make(VerdictKind::kFinished)), 0);
  EXPECT_EQ(ExitCodeOfVerdict(Make(VerdictKind::kInconclusive)), 3);
  EXPECT_EQ(ExitCodeOfVerdict(Make(VerdictKind::kDeadlock)), 1);
  EXPECT_EQ(ExitCodeOfVerdict(Make(VerdictKind::kMismatch, Confidence::kPossible)), 1);
}

TEST(ExitCodeOfVerdict, AFurtherFindingCounts) {
  model::Verdict verdict = Make(VerdictKind::kFinished);
  verdict.findings.push_back(Make(VerdictKind::kMismatch).main);
  EXPECT_EQ(ExitCodeOfVerdict(verdict), 1);
}

TEST(VerdictPolicy, SaysTheReportOnceThenOneLineForEachChange) {
  VerdictPolicy policy({});
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kNothing);
  const auto suspected = Make(VerdictKind::kRankNotJoined, Confidence::kSuspected);
  EXPECT_EQ(policy.Judge(suspected, false), Say::kReport);
  EXPECT_EQ(policy.Judge(suspected, false), Say::kNothing);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kDeadlock), false), Say::kHeadline);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kDeadlock), false), Say::kNothing);
  EXPECT_TRUE(policy.problem());
}

// What stands on the screen names the ranks that verdict.json names.
TEST(VerdictPolicy, OtherRanksAreALine) {
  VerdictPolicy policy({});
  auto first = Make(VerdictKind::kRankNotJoined, Confidence::kSuspected);
  first.main.culprit_ranks = {0, 1};
  auto second = first;
  second.main.culprit_ranks = {1};
  EXPECT_EQ(policy.Judge(first, false), Say::kReport);
  EXPECT_EQ(policy.Judge(second, false), Say::kHeadline);
  EXPECT_EQ(policy.Judge(second, false), Say::kNothing);
  EXPECT_EQ(policy.Judge(first, false), Say::kHeadline);
  int lines = 0;
  for (int i = 0; i < 100; ++i)
    lines += policy.Judge(i % 2 == 0 ? second : first, false) == Say::kHeadline;
  EXPECT_LE(lines, VerdictPolicy::kMostFurther);
}

TEST(VerdictPolicy, SaysThatASuspicionIsWithdrawn) {
  VerdictPolicy policy({});
  const auto suspected = Make(VerdictKind::kRankNotJoined, Confidence::kSuspected);
  EXPECT_EQ(policy.Judge(suspected, false), Say::kReport);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kWithdrawn);
  EXPECT_FALSE(policy.problem());
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kNothing);
  EXPECT_EQ(policy.Judge(suspected, false), Say::kHeadline);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kFinished), false), Say::kWithdrawn);
}

TEST(VerdictPolicy, AMerePossibilityIsOneLineAndNothingIsDone) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKillSuspected});
  const auto slow = Make(VerdictKind::kStuckKernel, Confidence::kPossible);
  EXPECT_EQ(policy.Judge(slow, false), Say::kSlow);
  EXPECT_EQ(policy.Judge(slow, false), Say::kNothing);
  EXPECT_FALSE(policy.problem());
  EXPECT_FALSE(policy.ActNow(0, 0, true));
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kGoesOn);
  EXPECT_EQ(policy.Judge(slow, false), Say::kSlow);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kStuckKernel, Confidence::kSuspected), false),
            Say::kReport);
}

TEST(VerdictPolicy, AJobThatStandsStillIsOneLine) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKillSuspected});
  auto still = Make(VerdictKind::kInconclusive, Confidence::kPossible);
  still.main.check = "no-progress";
  EXPECT_EQ(policy.Judge(still, false), Say::kSlow);
  EXPECT_EQ(policy.Judge(still, false), Say::kNothing);
  EXPECT_FALSE(policy.problem());
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kGoesOn);
  EXPECT_EQ(policy.Judge(still, false), Say::kSlow);
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kFinished), false), Say::kNothing);
}

TEST(VerdictPolicy, WhatGordianCannotSayIsASentence) {
  VerdictPolicy policy({});
  auto missing = Make(VerdictKind::kInconclusive, Confidence::kPossible);
  missing.main.check = "evidence-missing";
  auto still = missing;
  still.main.check = "no-progress";
  auto starts = missing;
  starts.main.check = "no-nccl-calls";
  EXPECT_EQ(policy.Judge(starts, false), Say::kNothing);
  EXPECT_EQ(policy.Judge(missing, false), Say::kSlow);
  EXPECT_EQ(policy.Judge(missing, false), Say::kNothing);
  EXPECT_EQ(policy.Judge(still, false), Say::kSlow) << "another sentence";
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kHealthy), false), Say::kGoesOn);
  EXPECT_FALSE(policy.problem());
}

TEST(VerdictPolicy, ReportNeverActs) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kReport});
  policy.Judge(Make(VerdictKind::kDeadlock), false);
  EXPECT_FALSE(policy.ActNow(kSecond, 1, true));
}

TEST(VerdictPolicy, KillActsOnceOnConfirmedOnly) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKill});
  policy.Judge(Make(VerdictKind::kHostBlocked, Confidence::kSuspected), false);
  EXPECT_FALSE(policy.ActNow(0, 0, true));
  policy.Judge(Make(VerdictKind::kHostBlocked), false);
  EXPECT_TRUE(policy.ActNow(0, 0, true));
  EXPECT_FALSE(policy.ActNow(0, 0, true));
}

TEST(VerdictPolicy, KillSuspectedActsOnSuspicions) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKillSuspected});
  policy.Judge(Make(VerdictKind::kRankNotJoined, Confidence::kSuspected), false);
  EXPECT_TRUE(policy.ActNow(0, 0, true));
}

TEST(VerdictPolicy, AMismatchKillsOnlyAfterNothingMovedForSuspectAfter) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKill, .suspect_after_ns = 5 * kSecond});
  policy.Judge(Make(VerdictKind::kMismatch), false);
  EXPECT_TRUE(policy.WantsTicks());
  EXPECT_FALSE(policy.ActNow(0 * kSecond, 10, true));
  EXPECT_FALSE(policy.ActNow(4 * kSecond, 10, true));
  EXPECT_FALSE(policy.ActNow(5 * kSecond, 11, true)) << "something moved";
  EXPECT_FALSE(policy.ActNow(9 * kSecond, 11, true));
  EXPECT_FALSE(policy.ActNow(11 * kSecond, 11, false)) << "nothing is unfinished";
  EXPECT_FALSE(policy.ActNow(12 * kSecond, 11, true));
  EXPECT_TRUE(policy.ActNow(16 * kSecond, 11, true));
  EXPECT_FALSE(policy.WantsTicks());
}

TEST(VerdictPolicy, ADeadlockBesideAMismatchKillsAtOnce) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKill});
  model::Verdict verdict = Make(VerdictKind::kMismatch);
  verdict.findings.push_back(Make(VerdictKind::kDeadlock).main);
  policy.Judge(verdict, false);
  EXPECT_TRUE(policy.ActNow(0, 0, true));
}

TEST(VerdictPolicy, ExecActsOnAMismatchToo) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kExec});
  policy.Judge(Make(VerdictKind::kMismatch), false);
  EXPECT_TRUE(policy.ActNow(0, 0, true));
}

TEST(VerdictPolicy, AfterAnInterruptTheGoneAreNobodysFault) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKill});
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kRankExited), true), Say::kNothing);
  EXPECT_FALSE(policy.problem());
  EXPECT_FALSE(policy.ActNow(0, 0, true));
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kDeadlock), true), Say::kReport);
}

TEST(VerdictPolicy, AVerdictThatMayEndNothingIsToldAlone) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kKill});
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kDeadlock), false, /*may_end=*/false), Say::kReport);
  EXPECT_FALSE(policy.ActNow(kSecond, 1, true));
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kMismatch), false, /*may_end=*/false), Say::kHeadline);
  EXPECT_FALSE(policy.ActNow(100 * kSecond, 1, true));
  EXPECT_EQ(policy.Judge(Make(VerdictKind::kDeadlock), false, /*may_end=*/true), Say::kHeadline);
  EXPECT_TRUE(policy.ActNow(101 * kSecond, 1, true));
}

TEST(VerdictPolicy, AProblemThatComesLaterGetsALineOfItsOwn) {
  VerdictPolicy policy({});
  model::Verdict verdict = Make(VerdictKind::kDeadlock);
  model::Finding early = Make(VerdictKind::kMismatch).main;
  early.culprit_ranks = {5};
  verdict.findings.push_back(early);
  EXPECT_EQ(policy.Judge(verdict, false), Say::kReport);
  EXPECT_TRUE(policy.TakeFurther().empty()) << "the report shows it";

  model::Finding late = Make(VerdictKind::kHostBlocked, Confidence::kSuspected).main;
  late.culprit_ranks = {3};
  verdict.findings.push_back(late);
  EXPECT_EQ(policy.Judge(verdict, false), Say::kNothing);
  ASSERT_EQ(policy.TakeFurther().size(), 1u);
  EXPECT_EQ(policy.Judge(verdict, false), Say::kNothing);
  EXPECT_TRUE(policy.TakeFurther().empty()) << "once is enough";

  verdict.findings.back().confidence = Confidence::kConfirmed;
  model::Finding consequence = Make(VerdictKind::kRankAborted, Confidence::kPossible).main;
  consequence.culprit_ranks = {1};
  verdict.findings.push_back(consequence);
  policy.Judge(verdict, false);
  EXPECT_TRUE(policy.TakeFurther().empty());
}

TEST(VerdictVariables, NameTheProcessOfEachCulprit) {
  model::Finding finding = Make(VerdictKind::kDeadlock).main;
  finding.culprit_ranks = {0, 3};
  finding.culprit_processes = {{.rank = 3, .pid = 77, .node = "n1"}};
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : VerdictVariables(finding)) variables[name] = value;
  EXPECT_EQ(variables["GORDIAN_CULPRIT_RANKS"], "0 3");
  EXPECT_EQ(variables["GORDIAN_CULPRIT_PIDS"], "- 77");
  EXPECT_EQ(variables["GORDIAN_CULPRIT_NODES"], "- n1");
}

model::Verdict Stalled(uint64_t at_ns, VerdictKind kind = VerdictKind::kDeadlock) {
  model::Verdict verdict = Make(kind);
  verdict.main.stalled_at_ns = at_ns;
  return verdict;
}

// What it acted upon stands until the launcher has brought the ranks back.
TEST(VerdictPolicy, RestartActsOnceForEachStart) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kRestart});
  policy.Judge(Stalled(5 * kSecond), false);
  ASSERT_TRUE(policy.acts_on().has_value());
  EXPECT_TRUE(policy.ActNow(6 * kSecond, 0, true));
  policy.Judge(Stalled(5 * kSecond), false);
  EXPECT_FALSE(policy.ActNow(7 * kSecond, 0, true)) << "the same, of the same start";
  model::Verdict old = Stalled(5 * kSecond);
  old.restarts.times = 1;
  policy.Judge(old, false);
  EXPECT_FALSE(policy.ActNow(8 * kSecond, 0, true)) << "the same, of an earlier start";
  model::Verdict again = Stalled(9 * kSecond);
  again.restarts.times = 1;
  policy.Judge(again, false);
  EXPECT_TRUE(policy.ActNow(10 * kSecond, 0, true));
  EXPECT_FALSE(policy.ActNow(11 * kSecond, 0, true));
}

TEST(VerdictPolicy, RestartLeavesSuspicionsAlone) {
  model::Verdict late = Make(VerdictKind::kRankNotJoined, Confidence::kSuspected);
  late.main.stalled_at_ns = kSecond;
  VerdictPolicy confirmed({.on_verdict = OnVerdict::kRestart});
  confirmed.Judge(late, false);
  EXPECT_FALSE(confirmed.ActNow(6 * kSecond, 0, true));
  VerdictPolicy suspected({.on_verdict = OnVerdict::kRestartSuspected});
  suspected.Judge(late, false);
  EXPECT_TRUE(suspected.ActNow(6 * kSecond, 0, true));
}

// A launcher sees that a rank has ended, and has its own way to deal with that.
TEST(VerdictPolicy, RestartLeavesTheLauncherTimeForARankThatHasEnded) {
  VerdictPolicy policy({.on_verdict = OnVerdict::kRestart, .suspect_after_ns = 5 * kSecond});
  policy.Judge(Stalled(kSecond, VerdictKind::kRankExited), false);
  EXPECT_TRUE(policy.WantsTicks());
  EXPECT_FALSE(policy.ActNow(0, 7, true));
  EXPECT_FALSE(policy.ActNow(14 * kSecond, 7, true));
  EXPECT_TRUE(policy.ActNow(15 * kSecond, 7, true));
  VerdictPolicy kill({.on_verdict = OnVerdict::kKill, .suspect_after_ns = 5 * kSecond});
  kill.Judge(Stalled(kSecond, VerdictKind::kRankExited), false);
  EXPECT_TRUE(kill.ActNow(0, 7, true));
}

}  // namespace
}  // namespace gordian::cli
