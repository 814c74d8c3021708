// Jobs of hundreds of ranks, in which nearly everybody is a victim.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/session/analysis.h"
#include "common/log.h"
#include "testing/jobs/training_job.h"

namespace gordian::analyzer {
namespace {

using testing::Fault;
using testing::TrainingJob;
using testing::TrainingShape;

TrainingShape Shape(int pipeline, int data, Fault fault) {
  TrainingShape shape;
  shape.pipeline = pipeline;
  shape.data = data;
  shape.fault = fault;
  return shape;
}

// All of the job, with rounds behind each step and, over `seconds`, behind the last one.
model::Verdict VerdictOn(TrainingJob* job, int steps, double seconds) {
  SilenceLog();
  Analysis analysis({});
  uint64_t number = 0;
  const TrainingJob::Sink feed = [&](int node, std::vector<v1::Event> events) {
    for (v1::Event& event : events) TrainingJob::MakeUnique(node, &event);
    analysis.OnBatch(events);
  };
  const auto round = [&] {
    job->Sleep(50'000'000);
    analysis.OnEvent(job->WholeRound(++number));
  };
  job->Begin(feed);
  for (int step = 0; step < steps; ++step) {
    job->Step(step, feed);
    round();
  }
  for (double slept = 0; slept < seconds; slept += 1) {
    job->Sleep(950'000'000);
    round();
  }
  EXPECT_EQ(analysis.stats().dropped_events, 0u);
  return analysis.Current();
}

// More victims than the search for a circle has starts, and all older than the culprit's calls.
TEST(LargeJob, TheCircleIsFoundBehindHundredsOfOlderVictims) {
  const TrainingShape shape = Shape(4, 16, Fault::kInversion);
  ASSERT_EQ(shape.ranks(), 512);
  TrainingJob job(shape);
  const model::Verdict verdict = VerdictOn(&job, shape.steps, 1);
  EXPECT_STREQ(model::Name(verdict.main.verdict), "deadlock") << verdict.main.summary;
  EXPECT_STREQ(model::Name(verdict.main.confidence), "confirmed");
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{job.faulty_rank()})
      << verdict.main.summary;
}

TEST(LargeJob, TheSameInOrderAccusesNone) {
  const TrainingShape shape = Shape(4, 16, Fault::kNone);
  TrainingJob job(shape);
  const model::Verdict verdict = VerdictOn(&job, shape.steps, 6);
  // All have done everything, and none calls any more.
  EXPECT_EQ(verdict.main.check, "no-progress") << verdict.main.summary;
  EXPECT_TRUE(verdict.main.culprit_ranks.empty());
}

TEST(LargeJob, TheRankThatNeverCameIsNamedAmongHundredsThatWait) {
  const TrainingShape shape = Shape(4, 16, Fault::kMissing);
  TrainingJob job(shape);
  const model::Verdict verdict = VerdictOn(&job, shape.steps, 25);
  EXPECT_STREQ(model::Name(verdict.main.confidence), "suspected") << verdict.main.summary;
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{job.faulty_rank()})
      << verdict.main.summary;
}

}  // namespace
}  // namespace gordian::analyzer
