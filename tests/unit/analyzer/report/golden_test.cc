// Verdicts made by hand against the texts that people and programs get.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "analyzer/report/report.h"
#include "analyzer/report/verdict_json.h"
#include "tests/unit/analyzer/report/sample_verdicts.h"

namespace gordian::analyzer {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Lines that differ, as diff shows them (both files are short: by position is good enough).
std::string Diff(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> a = LinesOf(expected), b = LinesOf(actual);
  std::string out;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    if (i < a.size()) out += "-" + a[i] + "\n";
    if (i < b.size()) out += "+" + b[i] + "\n";
  }
  return out;
}

void Compare(const std::string& name, const std::string& actual) {
  const std::string path = std::string(GORDIAN_GOLDEN_DIR) + "/" + name;
  if (getenv("GORDIAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  const std::string expected = ReadAll(path);
  if (expected == actual) return;
  ADD_FAILURE() << path << " differs:\n"
                << Diff(expected, actual) << "If the new text is right: GORDIAN_UPDATE_GOLDEN=1 "
                << ::testing::internal::GetArgvs()[0] << " --gtest_filter='Golden*'";
}

class Golden : public ::testing::TestWithParam<testing::Sample> {};

TEST_P(Golden, Json) {
  Compare(GetParam().name + ".json", VerdictToText(GetParam().verdict, testing::SampleSites()));
}

TEST_P(Golden, Report) {
  const std::string text = ReportText(GetParam().verdict, testing::SampleSites(),
                                      {.session = "gordian-train-20251121T030405Z"});
  Compare(GetParam().name + ".report.txt", text);
}

TEST_P(Golden, Explain) {
  Compare(GetParam().name + ".explain.txt",
          ExplainText(GetParam().verdict, testing::SampleSites()));
}

TEST_P(Golden, TextsFitAndAreClean) {
  for (int width : {80, 100}) {
    for (const std::string& text :
         {ReportText(GetParam().verdict, testing::SampleSites(), {.width = width, .session = "s"}),
          ExplainText(GetParam().verdict, testing::SampleSites(), {.width = width})}) {
      ASSERT_TRUE(text.ends_with("\n"));
      for (const std::string& line : LinesOf(text)) {
        EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
        EXPECT_EQ(line.find('\033'), std::string::npos) << line;
        EXPECT_FALSE(line.ends_with(" ")) << "'" << line << "'";
      }
    }
    EXPECT_LE(LinesOf(ReportText(GetParam().verdict, testing::SampleSites())).size(), 48u)
        << "does not fit one screen";
  }
}

TEST_P(Golden, ColourIsTheSameTextWithEscapes) {
  const std::string plain = ReportText(GetParam().verdict, testing::SampleSites());
  std::string coloured = ReportText(GetParam().verdict, testing::SampleSites(), {.color = true});
  EXPECT_NE(plain, coloured);
  for (size_t at; (at = coloured.find('\033')) != std::string::npos;) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  EXPECT_EQ(plain, coloured);
}

TEST_P(Golden, JsonReadsBackAsItWas) {
  const std::string text = VerdictToText(GetParam().verdict, testing::SampleSites());
  StatusOr<VerdictDocument> read = ParseVerdict(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(VerdictToText(read->verdict, read->sites()), text);
  // What explain prints from the file is what it would have printed from memory. (Bytes that were
  // not UTF-8 cannot come back.)
  if (GetParam().name == "deadlock_hostile_names") return;
  EXPECT_EQ(ExplainText(read->verdict, read->sites()),
            ExplainText(GetParam().verdict, testing::SampleSites()));
}

// What `gordian run` prints of a job that stands still is not cut.
TEST(Texts, ASentenceIsWhole) {
  model::Finding finding;
  finding.confidence = model::Confidence::kPossible;
  finding.summary =
      "Nothing has finished for 5 s, and gordian sees no rank that waits for another: rank 3 is in "
      "a kernel of the program, which is the last word.";
  const std::string text = SentenceText(finding, {.width = 80});
  EXPECT_TRUE(text.ends_with("word.\n")) << text;
  EXPECT_GE(LinesOf(text).size(), 2u);
  for (const std::string& line : LinesOf(text)) EXPECT_LE(line.size(), 80u) << text;
}

TEST(Texts, RanksThatAreNotSeen) {
  model::Finding finding;
  finding.evidence = {.ranks_seen = 2, .ranks_expected = 2, .nccl_calls = 9};
  EXPECT_EQ(UnseenRanksText(finding), "");
  finding.evidence.ranks_seen = 1;
  EXPECT_TRUE(
      UnseenRanksText(finding).starts_with("gordian: 1 of 2 ranks seen; what involves the "
                                           "other is a suspicion"))
      << UnseenRanksText(finding);
  // One that gordian sees, and whose NCCL it does not.
  finding.evidence = {.ranks_seen = 8, .ranks_expected = 8, .nccl_calls = 9};
  finding.evidence.not_visible = {"NCCL calls of rank 3 (pid 7): its NCCL is linked statically",
                                  "12 records of rank 1"};
  EXPECT_TRUE(UnseenRanksText(finding).starts_with("gordian: 7 of 8 ranks seen; what "))
      << UnseenRanksText(finding);
  // It may be starting.
  finding.evidence.nccl_calls = 0;
  EXPECT_EQ(UnseenRanksText(finding), "");
}

INSTANTIATE_TEST_SUITE_P(Verdicts, Golden, ::testing::ValuesIn(testing::Samples()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace gordian::analyzer
