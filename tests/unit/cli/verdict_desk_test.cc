#include "cli/run/verdict_desk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>

#include "cli/run/job_runner.h"
#include "common/clock.h"

namespace gordian::cli {
namespace {

using model::Confidence;
using model::VerdictKind;

class VerdictDeskTest : public ::testing::Test {
 protected:
  explicit VerdictDeskTest(OnVerdict on_verdict = OnVerdict::kReport) : on_verdict_(on_verdict) {}

  // What the user reads after this verdict.
  std::string Read(const model::Verdict& verdict) {
    desk_.OnVerdict({.verdict = verdict,
                     .sites = sites_,
                     .json = json_,
                     .revision = ++revision_,
                     .job_ended = false,
                     .rings = rings_,
                     .seconds_to_verdict = 0});
    return News();
  }
  std::string News() {
    std::string text;
    for (const std::string& news : desk_.TakeNews()) text += news;
    return text;
  }

  static model::Finding Found(VerdictKind kind, const std::string& summary) {
    model::Finding finding;
    finding.verdict = kind;
    finding.confidence = Confidence::kConfirmed;
    finding.summary = summary;
    return finding;
  }

 private:
  static JobOptions With(OnVerdict on_verdict) {
    JobOptions options;
    options.config.on_verdict = on_verdict;
    return options;
  }
  const OnVerdict on_verdict_;
  const JobOptions options_ = With(on_verdict_);

 protected:
  VerdictDesk desk_{options_};

 private:
  const analyzer::SiteResolver sites_ = [](const model::Site&) { return std::string(); };
  const std::string json_;
  const std::vector<std::string> rings_;
  uint64_t revision_ = 0;
};

TEST_F(VerdictDeskTest, SaysOnceThatAProofWasWrong) {
  model::Verdict verdict;
  verdict.main = Found(VerdictKind::kDeadlock, "ranks wait");
  EXPECT_NE(Read(verdict).find("DEADLOCK"), std::string::npos);

  verdict.disproved.push_back(verdict.main);
  verdict.main = Found(VerdictKind::kHealthy, "nothing is stuck");
  const std::string text = Read(verdict);
  EXPECT_NE(text.find("gordian was wrong: it called this a confirmed deadlock"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ranks wait"), std::string::npos) << text;
  EXPECT_NE(text.find("please report it"), std::string::npos) << text;
  EXPECT_EQ(text.find("suspicion is withdrawn"), std::string::npos) << text;
  EXPECT_EQ(Read(verdict).find("gordian was wrong"), std::string::npos);
}

TEST_F(VerdictDeskTest, TheTwinsSuspicionIsWithdrawn) {
  model::Verdict verdict;
  verdict.main = Found(VerdictKind::kRankNotJoined, "rank 1 has not joined");
  verdict.main.confidence = Confidence::kSuspected;
  EXPECT_NE(Read(verdict).find("RANK NOT JOINED"), std::string::npos);

  verdict.main = Found(VerdictKind::kHealthy, "nothing is stuck");
  const std::string text = Read(verdict);
  EXPECT_NE(text.find("suspicion is withdrawn"), std::string::npos) << text;
  EXPECT_EQ(text.find("gordian was wrong"), std::string::npos) << text;
}

TEST_F(VerdictDeskTest, ALaterSuspicionStandsInFull) {
  model::Verdict verdict;
  verdict.main = Found(VerdictKind::kRankNotJoined, "rank 1 has not joined");
  verdict.main.confidence = Confidence::kSuspected;
  Read(verdict);
  const std::string later =
      "rank 1 has not set key \"schedule\" of the store, it last called a host wait and sleeps "
      "outside of NCCL and CUDA; rank 0 waits.";
  verdict.main.verdict = VerdictKind::kHostBlocked;
  verdict.main.summary = later;
  verdict.main.detected_after_s = 13.1;
  std::string words;  // on one line
  std::istringstream text(Read(verdict));
  for (std::string word; text >> word;) words += (words.empty() ? "" : " ") + word;
  EXPECT_EQ(words, "gordian: HOST BLOCKED (suspected after 13.10 s): " + later);
}

class DeskOfRecovery : public VerdictDeskTest {
 protected:
  DeskOfRecovery() : VerdictDeskTest(OnVerdict::kRecover) {}

  static model::Verdict Cycle(model::RecoveryCondition refused) {
    model::Verdict verdict;
    verdict.main = Found(VerdictKind::kDeadlock, "ranks wait");
    verdict.main.recovery.checked = true;
    verdict.main.recovery.refused = refused;
    verdict.main.recovery.why = "rank 1 has not called it";
    verdict.main.recovery.operations = {"AllReduce #1 on dp"};
    return verdict;
  }
};

TEST_F(DeskOfRecovery, ARefusalThatPassesIsNotSaid) {
  EXPECT_EQ(Read(Cycle(model::RecoveryCondition::kPosted)).find("not recovered"),
            std::string::npos);
  EXPECT_TRUE(desk_.WantsTicks());
  EXPECT_FALSE(desk_.TakeRecovery().has_value());
  EXPECT_EQ(Read(Cycle(model::RecoveryCondition::kHold)).find("not recovered"), std::string::npos);
  EXPECT_TRUE(desk_.TakeRecovery().has_value());
  Read(Cycle(model::RecoveryCondition::kHold));
  EXPECT_FALSE(desk_.TakeRecovery().has_value()) << "it is handed out once";
}

TEST_F(DeskOfRecovery, ARefusalThatStandsIsSaidOnce) {
  std::string said = Read(Cycle(model::RecoveryCondition::kPosted));
  const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
  while (said.find("not recovered") == std::string::npos && MonoNs() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    said += News();
  }
  EXPECT_NE(said.find("gordian: not recovered (R1): rank 1 has not called it\n"), std::string::npos)
      << said;
  EXPECT_FALSE(desk_.WantsTicks());
  EXPECT_EQ(Read(Cycle(model::RecoveryCondition::kPosted)), "");
  // It was refused, and gordian has said so.
  Read(Cycle(model::RecoveryCondition::kHold));
  EXPECT_FALSE(desk_.TakeRecovery().has_value());
}

}  // namespace
}  // namespace gordian::cli
