// Where a text begins to repeat itself, against a naive twin. Whole jobs: tests/e2e/replay.py
// (steps).
#include "replayer/record/steps.h"

#include <gtest/gtest.h>

#include <random>

namespace gordian::replayer {
namespace {

// By the definition: tries each period on each suffix.
Repetition Naive(const std::vector<uint32_t>& text) {
  const size_t n = text.size();
  for (size_t period = 1; 2 * period <= n; ++period) {
    size_t covered = period;
    while (covered < n && text[n - 1 - covered] == text[n - 1 - covered + period]) ++covered;
    const size_t count = covered / period;
    if (count >= 2 && 2 * covered >= n) return {n - count * period, period, count};
  }
  return {0, n, n == 0 ? size_t{0} : size_t{1}};
}

void ExpectSame(const std::vector<uint32_t>& text) {
  const Repetition fast = FindRepetition(text), slow = Naive(text);
  std::string shown;
  for (const uint32_t letter : text) shown += static_cast<char>('a' + letter % 26);
  EXPECT_EQ(fast.begin, slow.begin) << shown;
  EXPECT_EQ(fast.period, slow.period) << shown;
  EXPECT_EQ(fast.count, slow.count) << shown;
}

TEST(Repetition, OfStepsBehindAWarmUp) {
  std::vector<uint32_t> text = {9, 9, 8};
  for (int step = 0; step < 5; ++step) text.insert(text.end(), {1, 2, 2, 3});
  const Repetition found = FindRepetition(text);
  EXPECT_EQ(found.begin, 3u);
  EXPECT_EQ(found.period, 4u);
  EXPECT_EQ(found.count, 5u);
}

TEST(Repetition, ATextThatDoesNotRepeatIsOne) {
  for (const std::vector<uint32_t>& text :
       {std::vector<uint32_t>{}, {1}, {1, 2, 3}, {1, 2, 3, 4, 5, 6, 6}}) {
    const Repetition found = FindRepetition(text);
    EXPECT_EQ(found.begin, 0u);
    EXPECT_EQ(found.period, text.size());
    EXPECT_EQ(found.count, text.empty() ? 0u : 1u);
  }
}

TEST(Repetition, LikeTheNaiveTwin) {
  std::mt19937 random(20261122);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint32_t> text(random() % 6);
    for (uint32_t& letter : text) letter = random() % 2;
    std::vector<uint32_t> step(1 + random() % 5);
    for (uint32_t& letter : step) letter = random() % 3;
    for (uint32_t times = random() % 6; times > 0; --times)
      text.insert(text.end(), step.begin(), step.end());
    if (!text.empty() && random() % 4 == 0) text[random() % text.size()] = 3;
    ExpectSame(text);
  }
}

}  // namespace
}  // namespace gordian::replayer
