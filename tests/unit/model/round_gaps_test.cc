// Time in which gordian did not look, as when its machine stood still, is none that a rank lets
// others wait.
#include "analyzer/model/facts/round_gaps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"
#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

constexpr uint64_t kSecond = 1'000'000'000;

// Counts unit by unit.
uint64_t NaiveBetween(const std::vector<uint64_t>& rounds, uint64_t longest, uint64_t from,
                      uint64_t to) {
  uint64_t counted = 0;
  for (uint64_t at = from; at < to; ++at) {
    bool in_gap = false;
    for (size_t i = 1; i < rounds.size(); ++i)
      in_gap |= at >= rounds[i - 1] + longest && at < rounds[i];
    counted += in_gap ? 0 : 1;
  }
  return counted;
}

TEST(RoundGaps, AsCountedUnitByUnit) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    const uint64_t longest = 1 + random() % 8;
    RoundGaps gaps;
    std::vector<uint64_t> rounds;
    uint64_t now = 1 + random() % 20;
    for (size_t i = 0; i < random() % 12; ++i) {
      rounds.push_back(now);
      gaps.OnRound(now, longest);
      now += random() % 20;
    }
    for (int i = 0; i < 50; ++i) {
      const uint64_t from = random() % (now + 10), to = random() % (now + 10);
      EXPECT_EQ(gaps.Between(from, to), NaiveBetween(rounds, longest, from, to));
    }
  }
}

TEST(RoundGaps, ForgetsTheOldest) {
  RoundGaps gaps;
  constexpr uint64_t kRounds = 10'000;
  for (uint64_t i = 1; i <= kRounds; ++i) gaps.OnRound(i * 10, 1);
  EXPECT_EQ(gaps.Between((kRounds - 100) * 10, kRounds * 10), 100u);
  EXPECT_GT(gaps.Between(0, kRounds * 10), kRounds);
}

const Program kUsual = {Init(0), AllReduce(0), StreamSync()};
const Program kAbsent = {Init(0), Sleep()};

TEST(RoundGaps, AMachineThatStoodStillIsNoReasonToSuspect) {
  for (const bool stood_still : {true, false}) {
    SCOPED_TRACE(stood_still);
    SimJob job(Comms(1, 3), {kUsual, kAbsent, kUsual});
    JobModel model;
    job.Run();
    job.Rounds(&model, 1);
    if (stood_still) {
      job.Advance(12 * kSecond);
      job.Rounds(&model, 1);
    } else {
      job.Rounds(&model, 13);
    }
    EXPECT_EQ(SaysTrouble(model.Current().main.verdict), !stood_still)
        << model.Current().main.summary;
    job.Rounds(&model, 6);
    ExpectVerdict(model.Current(),
                  {VerdictKind::kHostBlocked, Confidence::kSuspected, {1}, "host-blocked"});
  }
}

// Rounds that are always far apart are no gaps.
TEST(RoundGaps, ASlowPaceIsNone) {
  SimJob job(Comms(1, 3), {kUsual, kAbsent, kUsual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 20, /*period=*/4);
  ExpectVerdict(model.Current(),
                {VerdictKind::kHostBlocked, Confidence::kSuspected, {1}, "host-blocked"});
}

}  // namespace
}  // namespace gordian::model
