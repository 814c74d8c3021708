#include "analyzer/report/verdict_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/analyzer/report/sample_verdicts.h"

namespace gordian::analyzer {
namespace {

using nlohmann::json;

json Document() {
  return json::parse(VerdictToText(testing::Samples()[0].verdict, testing::SampleSites()));
}

TEST(VerdictJson, HasTheFieldsOfTheSchema) {
  const json document = Document();
  EXPECT_EQ(document["schema"], "gordian.verdict.v1");
  EXPECT_EQ(document["verdict"], "deadlock");
  EXPECT_EQ(document["confidence"], "confirmed");
  EXPECT_EQ(document["culprit_ranks"], json({0, 1}));
  EXPECT_EQ(document["cycle"][0]["comm"], "da7a000000000001");
  EXPECT_EQ(document["cycle"][0]["stream"], "0x7");
  EXPECT_EQ(document["cycle"][0]["site"], "train.cc:88 step()");
  EXPECT_EQ(document["operations"][1]["members"][0]["state"], "not_called");
  EXPECT_EQ(document["detected_after_s"], 0.2148);
  EXPECT_EQ(document["evidence"]["nccl_calls"], 2048);
  EXPECT_TRUE(document["findings"].is_array());
}

TEST(VerdictJson, KeepsNumbersBeyondDoubles) {
  model::Verdict verdict = testing::Samples()[0].verdict;
  verdict.main.stalled_at_ns = UINT64_MAX - 1;
  verdict.main.cycle[0].bytes = (1ull << 53) + 1;
  StatusOr<VerdictDocument> read = ParseVerdict(VerdictToText(verdict, testing::SampleSites()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->verdict.main.stalled_at_ns, UINT64_MAX - 1);
  EXPECT_EQ(read->verdict.main.cycle[0].bytes, (1ull << 53) + 1);
}

// Takes away every field of the document, one at a time: each must be missed by name.
void EachMissing(json& at, const std::string& path, json& document, int* tried) {
  if (at.is_array()) {
    for (size_t i = 0; i < at.size(); ++i) {
      EachMissing(at[i], path + "[" + std::to_string(i) + "]", document, tried);
    }
  }
  if (!at.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : at.items()) keys.push_back(key);
  for (const std::string& key : keys) {
    EachMissing(at[key], path + (path.empty() ? "" : ".") + key, document, tried);
    const json kept = at[key];
    at.erase(key);
    const StatusOr<VerdictDocument> missing = ParseVerdict(document.dump());
    // Files of earlier versions have none.
    EXPECT_EQ(missing.ok(), key == "communicators" || key == "culprit_processes" ||
                                (path.empty() && (key == "stacks" || key == "signs")))
        << path << "." << key;
    if (!missing.ok()) {
      EXPECT_NE(missing.status().message().find(key + " is missing"), std::string::npos)
          << missing.status().message();
    }
    at[key] = json::object();  // no field that is an object accepts an empty one
    EXPECT_FALSE(ParseVerdict(document.dump()).ok()) << path << "." << key << " = {}";
    at[key] = kept;
    ++*tried;
  }
}

TEST(VerdictJson, MissesEveryFieldByName) {
  json document = Document();
  int tried = 0;
  EachMissing(document, "", document, &tried);
  EXPECT_GT(tried, 60);
  EXPECT_TRUE(ParseVerdict(document.dump()).ok());
}

TEST(VerdictJson, RefusesWhatIsNoVerdict) {
  EXPECT_EQ(ParseVerdict("").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseVerdict("{\"schema\":").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseVerdict("[1,2]").status().code(), StatusCode::kDataLoss);
  json document = Document();
  document["schema"] = "gordian.verdict.v2";
  EXPECT_EQ(ParseVerdict(document.dump()).status().code(), StatusCode::kNewerVersion);
  document = Document();
  document["verdict"] = "doom";
  EXPECT_NE(ParseVerdict(document.dump()).status().message().find("doom"), std::string::npos);
  document = Document();
  document["cycle"][1]["reason"] = "boredom";
  EXPECT_NE(ParseVerdict(document.dump()).status().message().find("cycle[1].reason"),
            std::string::npos);
  document = Document();
  document["cycle"][1]["comm"] = "xyz";
  EXPECT_NE(ParseVerdict(document.dump()).status().message().find("cycle[1].comm"),
            std::string::npos);
  document = Document();
  document["evidence"]["records"] = -1;
  EXPECT_NE(ParseVerdict(document.dump()).status().message().find("negative"), std::string::npos);
  document = Document();
  document["cycle"][0]["rank"] = 1ull << 40;
  EXPECT_FALSE(ParseVerdict(document.dump()).ok());
}

TEST(VerdictJson, FilesAreNamedInErrors) {
  const StatusOr<VerdictDocument> missing = ReadVerdictFile("/no/such/verdict.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("/no/such/verdict.json"), std::string::npos);
}

}  // namespace
}  // namespace gordian::analyzer
