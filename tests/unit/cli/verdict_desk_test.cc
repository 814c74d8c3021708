#include "cli/run/verdict_desk.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/run/job_runner.h"

namespace gordian::cli {
namespace {

using model::Confidence;
using model::VerdictKind;

class VerdictDeskTest : public ::testing::Test {
 protected:
  // What the user reads after this verdict.
  std::string Read(const model::Verdict& verdict) {
    desk_.OnVerdict({.verdict = verdict,
                     .sites = sites_,
                     .json = json_,
                     .revision = ++revision_,
                     .job_ended = false,
                     .rings = rings_,
                     .seconds_to_verdict = 0});
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
  JobOptions options_;
  VerdictDesk desk_{options_};
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

}  // namespace
}  // namespace gordian::cli
