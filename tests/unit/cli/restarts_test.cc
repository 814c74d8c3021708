#include "cli/run/restarts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace gordian::cli {
namespace {

std::string Place(const model::Site& site) {
  return site.address == 0 ? "" : "train.py:" + std::to_string(site.address) + " step()";
}

model::Finding Cycle(int sequence, uint64_t line) {
  model::Finding finding;
  finding.check = "communicator-order-cycle";
  finding.culprit_ranks = {0, 3};
  for (const int rank : {0, 3}) {
    model::WaitEdge edge;
    edge.rank = rank;
    edge.op = "AllReduce";
    edge.comm_name = "dp." + std::to_string(sequence);
    edge.sequence = sequence;
    edge.bytes = static_cast<uint64_t>(sequence) * 4;
    edge.site.address = line + static_cast<uint64_t>(rank);
    finding.cycle.push_back(edge);
  }
  return finding;
}

TEST(CauseOf, IsCheckCulpritsAndLines) {
  EXPECT_EQ(CauseOf(Cycle(7, 88), Place),
            "communicator-order-cycle of ranks 0 and 3 at train.py:88 step(), train.py:91 step()");
}

TEST(CauseOf, StaysTheSameAtAnotherStep) {
  EXPECT_EQ(CauseOf(Cycle(7, 88), Place), CauseOf(Cycle(9, 88), Place));
  EXPECT_NE(CauseOf(Cycle(7, 88), Place), CauseOf(Cycle(7, 90), Place));
  model::Finding other = Cycle(7, 88);
  other.culprit_ranks = {1};
  EXPECT_NE(CauseOf(Cycle(7, 88), Place), CauseOf(other, Place));
}

// Where no line is known, an address is none: it is another one at each start.
TEST(CauseOf, WithoutLinesTheOperationsTell) {
  const auto address = [](const model::Site& site) { return "0x" + std::to_string(site.address); };
  EXPECT_EQ(CauseOf(Cycle(7, 88), address),
            "communicator-order-cycle of ranks 0 and 3 in AllReduce on dp.");
  EXPECT_EQ(CauseOf(Cycle(7, 88), address), CauseOf(Cycle(8, 99), address));
}

class CountsAfterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gordian-restarts-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) { std::ofstream(folder_ + "/manifest.json") << text; }
  void Write(const RestartCounts& counts, bool asked) {
    nlohmann::ordered_json manifest;
    manifest["command"] = command_;
    manifest["restarts"] = RestartsJson(counts, asked);
    Write(manifest.dump());
  }

  std::string folder_;
  const std::vector<std::string> command_ = {"./train", "--fast"};
};

TEST_F(CountsAfterTest, GoOnWhereTheJobWasEndedToBeStartedAgain) {
  Write({.starts = 2, .causes = {{"a", 1}, {"b", 3}}}, /*asked=*/true);
  const RestartCounts counts = CountsAfter(folder_, command_);
  EXPECT_EQ(counts.starts, 3);
  EXPECT_EQ(counts.causes, (std::map<std::string, int>{{"a", 1}, {"b", 3}}));
}

TEST_F(CountsAfterTest, BeginAnewElsewhere) {
  const auto is_new = [](const RestartCounts& counts) {
    return counts.starts == 1 && counts.causes.empty();
  };
  EXPECT_TRUE(is_new(CountsAfter("", command_)));
  EXPECT_TRUE(is_new(CountsAfter(folder_, command_))) << "no manifest";
  Write({.starts = 2, .causes = {{"a", 1}}}, /*asked=*/false);
  EXPECT_TRUE(is_new(CountsAfter(folder_, command_))) << "it ended otherwise";
  Write({.starts = 2, .causes = {{"a", 1}}}, /*asked=*/true);
  EXPECT_TRUE(is_new(CountsAfter(folder_, {"./other"})));
  for (const char* text :
       {"", "[]", "{}", R"({"command":["./train","--fast"],"restarts":[]})",
        R"({"command":["./train","--fast"],"restarts":{"asked":1,"starts":2,"causes":{}}})",
        R"({"command":["./train","--fast"],"restarts":{"asked":true,"starts":"2","causes":{}}})",
        R"({"command":["./train","--fast"],"restarts":{"asked":true,"starts":2,"causes":[]}})"}) {
    Write(std::string(text));
    EXPECT_TRUE(is_new(CountsAfter(folder_, command_))) << text;
  }
}

}  // namespace
}  // namespace gordian::cli
