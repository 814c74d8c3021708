#include "collector/uplink/clock_sync.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gordian::collector {
namespace {

TEST(ClockSyncTest, MidpointAndHalfTheWay) {
  ClockSync clock;
  EXPECT_FALSE(clock.Best(0).has_value());
  // There in 30, 10 inside, back in 50; their clock is 1000 ahead.
  ASSERT_TRUE(
      clock.Add({.sent_ns = 100, .received_ns = 1130, .answered_ns = 1140, .read_ns = 190}));
  const auto best = clock.Best(190);
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->offset_ns, 990);
  EXPECT_EQ(best->bound_ns, 40u);
  EXPECT_EQ(best->at_ns, 190u);
}

TEST(ClockSyncTest, WhatCannotBeIsLeftOut) {
  ClockSync clock;
  EXPECT_FALSE(clock.Add({.sent_ns = 10, .received_ns = 1, .answered_ns = 2, .read_ns = 9}));
  EXPECT_FALSE(clock.Add({.sent_ns = 10, .received_ns = 3, .answered_ns = 2, .read_ns = 20}));
  EXPECT_FALSE(clock.Add({.sent_ns = 10, .received_ns = 1, .answered_ns = 50, .read_ns = 20}));
  EXPECT_FALSE(clock.Best(100).has_value());
}

TEST(ClockSyncTest, AnOldGoodReadingLosesToAFreshOneInTheEnd) {
  ClockSync clock;
  const uint64_t second = 1'000'000'000;
  ASSERT_TRUE(
      clock.Add({.sent_ns = second, .received_ns = 5, .answered_ns = 5, .read_ns = second + 200}));
  ASSERT_TRUE(clock.Add({.sent_ns = 2 * second,
                         .received_ns = second + 5,
                         .answered_ns = second + 5,
                         .read_ns = 2 * second + 80'000}));
  EXPECT_EQ(clock.Best(2 * second + 80'000)->bound_ns, 40'000u) << "50 us a second of drift";
  ClockSync young;
  ASSERT_TRUE(
      young.Add({.sent_ns = second, .received_ns = 5, .answered_ns = 5, .read_ns = second + 200}));
  EXPECT_EQ(young.Best(second + 200)->bound_ns, 100u);
  EXPECT_EQ(young.Best(2 * second + 200)->bound_ns, 50'100u);
}

// Against a twin that keeps every reading and computes in wide numbers; and against the truth: two
// drifting clocks and ways of random length. The bound must hold each time.
TEST(ClockSyncTest, TheBoundHoldsAndTheBestIsTheNaiveBest) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const double drift = (static_cast<double>(random() % 99) - 49) * 1e-6;  // within 50 ppm
    const uint64_t start = random() % (1ull << 50);
    // Their clock is far ahead of ours, or far behind.
    const uint64_t theirs = random() % (1ull << 50) + (1ull << 40);
    auto their_clock = [&](uint64_t ours) {
      const double run = static_cast<double>(ours - start);
      return theirs + static_cast<uint64_t>(run * (1 + drift));
    };
    ClockSync clock;
    struct Naive {
      __int128 offset, bound;
      uint64_t at;
    };
    std::vector<Naive> naive;
    uint64_t now = start + 1;
    for (int i = 0; i < 200; ++i) {
      now += random() % 3'000'000'000;
      const uint64_t sent = now;
      const uint64_t there = 5'000 + random() % (random() % 4 == 0 ? 5'000'000 : 50'000);
      const uint64_t inside = random() % 20'000;
      const uint64_t back = 5'000 + random() % (random() % 4 == 0 ? 5'000'000 : 50'000);
      const uint64_t received = their_clock(sent + there);
      const uint64_t answered = their_clock(sent + there + inside);
      now = sent + there + inside + back;
      ASSERT_TRUE(clock.Add({sent, received, answered, now}));
      const __int128 low = static_cast<__int128>(answered) - now;
      const __int128 high = static_cast<__int128>(received) - sent;
      naive.push_back({low + (high - low) / 2, (high - low) - (high - low) / 2, now});
      if (naive.size() > ClockSync::kWindow) {
        naive.erase(naive.begin());
      }
      const uint64_t asked = now + random() % 2'000'000'000;
      const Naive* best = nullptr;
      __int128 best_bound = 0;
      for (const Naive& one : naive) {
        const __int128 bound =
            one.bound + static_cast<__int128>(asked - one.at) * ClockSync::kDriftPpm / 1'000'000;
        if (best == nullptr || bound <= best_bound) {
          best = &one;
          best_bound = bound;
        }
      }
      const auto got = clock.Best(asked);
      ASSERT_TRUE(got.has_value());
      EXPECT_EQ(got->offset_ns, static_cast<int64_t>(best->offset));
      EXPECT_EQ(got->bound_ns, static_cast<uint64_t>(best_bound));
      const int64_t truth = static_cast<int64_t>(their_clock(asked) - asked);
      const int64_t error = truth - got->offset_ns;
      EXPECT_LE(static_cast<uint64_t>(error < 0 ? -error : error), got->bound_ns + 2)
          << "seed " << seed;
    }
  }
}

TEST(ClockSyncTest, TellsSeldomAndNeverTooLate) {
  const ClockSync::Reading told{.offset_ns = 0, .bound_ns = 20'000, .at_ns = 0};
  EXPECT_FALSE(ClockSync::WorthTelling(told, {0, 15'000, 1'000'000'000})) << "not better enough";
  EXPECT_TRUE(ClockSync::WorthTelling(told, {500'000, 15'000, 1'000'000'000}))
      << "told what is false";
  EXPECT_TRUE(ClockSync::WorthTelling(told, {0, 15'000, 20'000'000'000})) << "1 ms by now";
  EXPECT_TRUE(ClockSync::WorthTelling({0, 5'000'000, 0}, {0, 50'000, 1'000})) << "a first bad one";
}

}  // namespace
}  // namespace gordian::collector
