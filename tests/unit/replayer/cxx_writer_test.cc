// Programs of schedules made by hand, against tests/golden/replays. tests/golden/update.sh writes
// them anew; written_compiles_test.cc and tests/e2e/replay.py compile them.
#include "replayer/write/cxx_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "replayer/write/cxx_rank_writer.h"
#include "tests/unit/replayer/hand_made.h"

namespace gordian::replayer {
namespace {

class GoldenReplays : public ::testing::TestWithParam<testing::Sample> {};

// In GORDIAN_GOLDEN_DIR.
void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GORDIAN_GOLDEN_DIR) + "/" + name + ".cc";
  if (std::getenv("GORDIAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(expected.str(), text) << path
                                  << " differs. If the new text is right: tests/golden/update.sh";
}

TEST_P(GoldenReplays, Cxx) {
  ExpectGolden(GetParam().name,
               WriteCxx(GetParam().schedule, {.file = "replay.cc", .fix = "", .verified = ""}));
}

TEST(GoldenBenchmark, Cxx) {
  ExpectGolden("benchmark",
               WriteCxx(testing::Steps(),
                        {.file = "bench.cc", .fix = "", .verified = "", .benchmark = true}));
}

INSTANTIATE_TEST_SUITE_P(Samples, GoldenReplays, ::testing::ValuesIn(testing::Samples()),
                         [](const auto& info) { return info.param.name; });

TEST(CxxWriter, NobodyGetsOutOfAComment) {
  Schedule schedule = testing::SampleOf(testing::Samples(), "missing");
  schedule.origin.summary = "first\nint evil() { return 1; } \\";
  schedule.origin.command = "run \\\n*/ #error";
  schedule.ranks[0].threads[0].ops[0].site = "a\nb \\";
  const std::string text = WriteCxx(schedule, {.file = "replay.cc", .verified = ""});
  EXPECT_EQ(text.find("\nint evil"), std::string::npos);
  EXPECT_EQ(text.find("\n*/"), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("//") != std::string::npos) {
      EXPECT_NE(line.back(), '\\') << line;
    }
  }
  EXPECT_NE(text.find("// a b\n"), std::string::npos);
}

TEST(CxxWriter, NothingIsDeclaredThatNoCallNames) {
  Schedule schedule = testing::SampleOf(testing::Samples(), "missing");
  RankProgram& rank = schedule.ranks[0];
  rank.streams = {{"first"}, {"legacy", StreamKind::kLegacy}};
  rank.events = 1;
  Op copy;
  copy.id = NextId(schedule);
  copy.kind = OpKind::kCopy;  // cudaMemcpy: names no stream
  copy.stream = 1;
  copy.site = "some.cc:12 legacy()";
  Op poll = copy;
  poll.id = copy.id + 1;
  poll.kind = OpKind::kPoll;  // of the event, on the stream that recorded it
  poll.event = 0;
  poll.stream = 0;
  rank.threads = {{{copy, poll}}};
  const std::string text = WriteCxxRank(schedule, 0, {});
  EXPECT_EQ(text.find("cudaStream_t"), std::string::npos) << text;
  EXPECT_NE(text.find("cudaEvent_t e1"), std::string::npos) << text;
  rank.threads = {{}};
  rank.threads[0].ops.clear();
  schedule.comms.clear();
  EXPECT_EQ(WriteCxxRank(schedule, 0, {}), "  (void)me;\n\n");
}

// To a compiler that knows trigraphs, two question marks and a slash are a backslash.
TEST(CxxWriter, NoTrigraphs) {
  EXPECT_EQ(CxxQuoted("a?\?/b?"), "\"a\\?\\?/b\\?\"");
  for (const char* text : {"what?\?/", "?\?\?\?/", "a ?\? b", "?\?/?\?/"}) {
    EXPECT_EQ(CxxCommented(text).find("?\?"), std::string::npos) << text;
  }
  EXPECT_EQ(CxxCommented("why?"), "why?");
}

TEST(CxxWriter, RanksThatDoTheSameShareAFunction) {
  const std::string text = WriteCxx(testing::SampleOf(testing::Samples(), "missing"),
                                    {.file = "replay.cc", .verified = ""});
  EXPECT_NE(text.find("// Ranks 0, 1, 2, 3, 4, 6 and 7.\nvoid Rank0(Thread& me)"),
            std::string::npos);
  EXPECT_EQ(text.find("void Rank1("), std::string::npos);
  EXPECT_NE(text.find("void Rank5("), std::string::npos);
}

}  // namespace
}  // namespace gordian::replayer
