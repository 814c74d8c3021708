// Texts and chunks as gordian reads them, with bytes changed, cut and doubled by seeds. Crashes and
// hangs fail, and what the fuzzed functions abort on.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "analyzer/report/verdict_json.h"
#include "cli/config_text.h"
#include "common/trace_file.h"
#include "testing/jobs/recorded_job.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::cli {
namespace {

// Changes a few places of the text: other bytes, parts left out or repeated, pieces of syntax.
std::string Spoil(std::mt19937* random, std::string text) {
  static const std::vector<std::string> kPieces = {"[",
                                                   "{",
                                                   "]",
                                                   "}",
                                                   "\"",
                                                   "'",
                                                   ".",
                                                   "=",
                                                   ",",
                                                   ":",
                                                   "null",
                                                   "-1",
                                                   "1e999",
                                                   "\n",
                                                   "\\u0000",
                                                   "#",
                                                   "18446744073709551616",
                                                   "\xff",
                                                   "[[",
                                                   "{}"};
  const auto below = [random](size_t limit) { return limit == 0 ? 0 : (*random)() % limit; };
  for (size_t left = 1 + below(4); left > 0; --left) {
    const size_t at = below(text.size());
    const size_t length = std::min<size_t>(1 + below(12), text.size() - at);
    switch (below(4)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      default:
        if (!text.empty()) text[at] = static_cast<char>((*random)());
    }
  }
  return text;
}

// A text of each kind, which its reader accepts.
std::vector<std::string> Texts() {
  std::vector<std::string> texts = {
      R"({"model": "single", "N_GPUs": 4, "disorder_prob": [0.1, 0.2], "sync_prob": 0.0})",
      "model = \"single\"\n[a.b]\nc = [1, 2.5, {d.e = 'x.y'}]\nf = \"\"\"\n...\"\"\"\n",
      "forward_us,backward_us,comm_us,elements\n1,2,3,4\n# 5\n6,7,8,9\n",
      R"({"ranks": [[{"forward_us": 1, "backward_us": 2, "comm_us": 3}]]})"};
  texts.push_back(analyzer::VerdictToText({}, [](const model::Site&) { return ""; }));
  return texts;
}

TEST(Inputs, UnchangedTextsAreAccepted) {
  const std::vector<std::string> texts = Texts();
  EXPECT_TRUE(ParseConfigText(texts[0], "a.json").ok());
  EXPECT_TRUE(ParseConfigText(texts[1], "a.toml").ok());
  EXPECT_TRUE(analyzer::ParseVerdict(texts.back()).ok());
}

TEST(Inputs, TextsThatAreAlmostRight) {
  const std::vector<std::string> texts = Texts();
  for (uint32_t seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::string text = Spoil(&random, texts[seed % texts.size()]);
    fuzz::FuzzText(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
}

TEST(Inputs, ChunksThatAreAlmostRight) {
  testing::RecordedJob job = testing::TwoRanks(true);
  job.Sleep(1'000'000'000);
  job.Round();
  std::string contents;
  for (const v1::Event& event : job.Take()) TraceWriter::AppendTo(event, &contents);
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::string spoilt = Spoil(&random, contents);
    fuzz::FuzzTraceContents(reinterpret_cast<const uint8_t*>(spoilt.data()), spoilt.size());
  }
}

}  // namespace
}  // namespace gordian::cli
