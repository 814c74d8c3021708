#include "cli/explore_checkpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace gordian::cli {
namespace {

const ExploreBounds kBounds = {.preemptions = 2, .depth = {}, .window = 2000, .max_calls = 100};

ExploreCheckpoint Checkpoint() {
  replayer::WindowState state{.digest = 12345678901234567890u, .done = false};
  state.frontier.open = {
      {.same = 0, .then = {0, 1, 1}, .asleep = {2}, .preemptions = 1, .parent = 7, .branch = 0},
      {.same = 2, .then = {0}, .asleep = {}, .preemptions = 0, .parent = 7, .branch = 1}};
  state.frontier.counts = {.states = 5, .ends = 4, .merged = 3, .asleep = 2, .cut = 1};
  state.ends = {{.number = 3, .path = {1, 0}}};
  return {.bounds = kBounds, .windows = {state, {.digest = 1, .done = true}}};
}

class ExploreCheckpointTest : public ::testing::Test {
 protected:
  ExploreCheckpointTest() {
    std::string folder = ::testing::TempDir() + "/checkpoint-XXXXXX";
    folder_ = mkdtemp(folder.data());
    path_ = folder_ + "/c";
  }
  ~ExploreCheckpointTest() override { std::filesystem::remove_all(folder_); }

  StatusOr<std::optional<ExploreCheckpoint>> Read(std::string_view text,
                                                  const ExploreBounds& bounds = kBounds) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
    return ReadCheckpoint(path_, bounds);
  }

  std::string folder_, path_;
};

TEST_F(ExploreCheckpointTest, GivesBackWhatWasWritten) {
  EXPECT_FALSE((*ReadCheckpoint(path_, kBounds)).has_value());
  const std::string text = CheckpointText(Checkpoint());
  const auto read = Read(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(CheckpointText(**read), text);
}

TEST_F(ExploreCheckpointTest, RefusesEachBitThatChanged) {
  const std::string whole = CheckpointText(Checkpoint());
  for (size_t at = 0; at < whole.size(); ++at) {
    // The test changes each bit of the first line, which has no CRC of its own, and one of each
    // later byte.
    const bool head = at <= whole.find('\n');
    for (size_t bit = head ? 0 : at % 8; bit < (head ? 8 : at % 8 + 1); ++bit) {
      std::string text = whole;
      text[at] = static_cast<char>(text[at] ^ (1 << bit));
      EXPECT_FALSE(Read(text).ok()) << "bit " << bit << " of byte " << at << ":\n" << text;
    }
  }
}

TEST_F(ExploreCheckpointTest, RefusesEachBeginningOfItself) {
  const std::string whole = CheckpointText(Checkpoint());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(Read(std::string_view(whole).substr(0, bytes)).ok()) << bytes << " bytes";
}

TEST_F(ExploreCheckpointTest, RefusesEachOtherBound) {
  const std::string text = CheckpointText(Checkpoint());
  for (ExploreBounds other :
       {ExploreBounds{.preemptions = 3, .window = 2000, .max_calls = 100},
        ExploreBounds{.window = 2000, .max_calls = 100},
        ExploreBounds{.preemptions = 2, .depth = 9, .window = 2000, .max_calls = 100},
        ExploreBounds{.preemptions = 2, .window = 1, .max_calls = 100},
        ExploreBounds{.preemptions = 2, .window = 2000, .max_calls = 1},
        ExploreBounds{
            .preemptions = 2, .window = 2000, .max_calls = 100, .threads_ordered = true}}) {
    const auto read = Read(text, other);
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find("was begun with another"), std::string::npos);
  }
}

}  // namespace
}  // namespace gordian::cli
