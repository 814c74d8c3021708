#include "replayer/record/buffers.h"

#include <gtest/gtest.h>

#include "tests/unit/replayer/hand_made.h"

namespace gordian::replayer {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 30;

Schedule Large(const char* verdict) {
  Schedule schedule = testing::SampleOf(testing::Samples(), "inversion");
  schedule.origin.signature.verdict = verdict;
  schedule.ranks[0].threads[0].ops[0].count = kHuge;
  schedule.ranks[1].threads[0].ops[1].count = kHuge;
  schedule.ranks[2].threads[0].ops[0].count = 2 * kHuge;
  return schedule;
}

TEST(Buffers, EqualStaysEqualAndDifferentStaysDifferent) {
  Schedule schedule = Large("deadlock");
  ShrinkBuffers(&schedule);
  const uint64_t first = schedule.ranks[0].threads[0].ops[0].count;
  EXPECT_EQ(first, schedule.ranks[1].threads[0].ops[1].count);
  EXPECT_LT(first, schedule.ranks[2].threads[0].ops[0].count);
  EXPECT_GE(first * 4, kMostBytes);
  EXPECT_LT(schedule.ranks[2].threads[0].ops[0].count * 4, 2 * kMostBytes);
  EXPECT_EQ(schedule.ranks[0].threads[0].ops[1].count, 1024u);  // small ones are as they were
  EXPECT_EQ(schedule.origin.notes.size(), 1u);
}

TEST(Buffers, AMismatchKeepsItsSizes) {
  Schedule schedule = Large("mismatch");
  ShrinkBuffers(&schedule);
  EXPECT_EQ(schedule, Large("mismatch"));
}

TEST(Buffers, NothingToSayWhereNothingIsLarge) {
  Schedule schedule = testing::SampleOf(testing::Samples(), "events");
  ShrinkBuffers(&schedule);
  EXPECT_EQ(schedule, testing::SampleOf(testing::Samples(), "events"));
}

}  // namespace
}  // namespace gordian::replayer
