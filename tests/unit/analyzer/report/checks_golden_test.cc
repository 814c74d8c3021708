// What a person reads of each check (`gordian explain`), against tests/golden/checks; every check
// of the catalogue must speak. tests/golden/update.sh writes the texts anew.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/hang_classes.h"
#include "analyzer/report/check_text.h"
#include "analyzer/report/report.h"
#include "analyzer/stacks/sign_book.h"
#include "tests/unit/analyzer/report/check_jobs.h"

namespace gordian::analyzer {
namespace {

using testing::VerdictOf;

class ChecksGolden : public ::testing::TestWithParam<const model::Check*> {};

TEST_P(ChecksGolden, Explain) {
  const model::Check& check = *GetParam();
  const model::Verdict verdict = VerdictOf(check.id);
  if (check.sign) {
    EXPECT_TRUE(std::any_of(verdict.signs.begin(), verdict.signs.end(), [&](const auto& sign) {
      return sign.check == check.id;
    })) << verdict.main.summary;
  } else {
    EXPECT_EQ(verdict.main.check, check.id) << verdict.main.summary;
    EXPECT_EQ(verdict.main.verdict, check.verdict);
    EXPECT_TRUE(verdict.signs.empty());
  }
  const std::string text = ExplainText(verdict, testing::SiteOfJob);
  const std::string path = std::string(GORDIAN_GOLDEN_DIR) + "/" + check.id + ".txt";
  if (getenv("GORDIAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(expected.str(), text) << path
                                  << " differs. If the new text is right: tests/golden/update.sh";
}

INSTANTIATE_TEST_SUITE_P(Checks, ChecksGolden, ::testing::ValuesIn([] {
                           size_t count = 0;
                           const model::Check* checks = model::AllChecks(&count);
                           std::vector<const model::Check*> all;
                           for (size_t i = 0; i < count; ++i) all.push_back(&checks[i]);
                           return all;
                         }()),
                         [](const auto& test) {
                           std::string name = test.param->id;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CheckText, SaysAllThatTheCatalogueHas) {
  const model::Check& check = *model::FindCheck("host-wait-cycle");
  const std::string text = CheckText(check, 100);
  for (const char* part : {check.id, check.title, "detected", "e2e.inversion_sync"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(model::FindCheck("host-wait"), nullptr);
}

TEST(HangClasses, AreAll49WithChecksThatExist) {
  size_t count = 0;
  const model::HangClass* classes = model::HangClasses(&count);
  ASSERT_EQ(count, 49u);
  int seen = 0;
  for (size_t i = 0; i < count; ++i) {
    const model::HangClass& row = classes[i];
    EXPECT_EQ(row.number, static_cast<int>(i) + 1);
    const bool visible = row.visibility != model::Visibility::kNotVisible;
    seen += visible;
    EXPECT_NE(std::string(row.test), "") << row.number;
    EXPECT_EQ(std::string(row.twin).empty(), row.visibility != model::Visibility::kDetected)
        << row.number;
    if (!visible) {
      EXPECT_NE(std::string(row.note), "") << row.number;
    }
    std::istringstream ids(row.checks);
    for (std::string id; std::getline(ids, id, ',');) {
      id.erase(0, id.find_first_not_of(' '));
      EXPECT_NE(model::FindCheck(id), nullptr) << row.number << ": " << id;
    }
  }
  EXPECT_EQ(seen, 42);
}

}  // namespace
}  // namespace gordian::analyzer
