// S3: every engine against its twin, on the same perturbations. In full: ./dev bench simulate S3.
#include <gtest/gtest.h>

#include "simulator/engine/dense.h"
#include "simulator/engine/event.h"
#include "simulator/engine/fixpoint.h"
#include "testing/simulator/table1.h"
#include "testing/simulator/twins.h"

namespace gordian::simulator {
namespace {

TEST(S3, TheNaiveListsAreTheLists) {
  for (const Config& config : {ShippedArbitrary(), Free64(), RandomJob(3, 6, 12)}) {
    Problem problem;
    ASSERT_EQ(BuildProblem(config, false, &problem), "");
    Perturbations none;
    EXPECT_EQ(SequencesOf(problem.components[0], none),
              NaiveLists(config.groups, static_cast<int>(config.gpu_num)));
  }
}

TEST(S3, SmallJobsAgainstTheNaiveJudge) {
  TwinCounts all;
  for (uint64_t job = 0; job < 300; ++job) {
    const Config config = With(RandomJob(job, 4, 5), Model::kStreamWithSync, 0.3, 0.3);
    ASSERT_EQ(CheckConfig(config), "") << job;
    const TwinCounts counts = CompareSync(config, job, 60, true);
    ASSERT_EQ(counts.differences, 0) << "job " << job << ": " << counts.first;
    all.rounds += counts.rounds;
    all.by_default += counts.by_default;
    all.exact += counts.exact;
    Config single = config;
    single.model = Model::kSingle;
    const TwinCounts alone = CompareSingle(single, job, 30, true);
    ASSERT_EQ(alone.differences, 0) << "job " << job << ": " << alone.first;
    EXPECT_GT(alone.exact + alone.by_default + 1, 0);
  }
  // Both verdicts, and rounds where they differ, must have come up.
  EXPECT_GT(all.exact, 500);
  EXPECT_GT(all.by_default, all.exact);
  EXPECT_LT(all.by_default, all.rounds);
}

TEST(S3, LargerRandomJobs) {
  for (uint64_t job = 0; job < 60; ++job) {
    const double p = job % 3 == 0 ? 0.02 : 0.2;
    const Config config = With(RandomJob(1000 + job, 12, 60), Model::kStreamWithSync, p, 0.1);
    const TwinCounts counts = CompareSync(config, job, 100, false);
    ASSERT_EQ(counts.differences, 0) << "job " << job << ": " << counts.first;
  }
}

// By default a deadlock: turn by turn, by the naive judge, and by the event engine, which must
// agree.
void ExpectDefault(const std::vector<GroupSpec>& groups, Perturbations drawn, bool deadlock) {
  Config config;
  config.gpu_num = 4;
  config.groups = groups;
  Problem problem;
  ASSERT_EQ(BuildProblem(config, true, &problem), "");
  ASSERT_EQ(problem.components.size(), 1u);
  const Component& c = problem.components[0];
  drawn.Index(c.gpus);
  DenseEngine turns(c, {Model::kStreamWithSync, Detector::kIntersection, -1});
  EXPECT_EQ(turns.Run(drawn).deadlock, deadlock);
  EXPECT_EQ(NaiveTurns(groups, SequencesOf(c, drawn), false), deadlock);
  EXPECT_EQ(EventEngine(c).Run(drawn), deadlock);
}

// GPU 3 passes over four, emits the fifth of its list and waits at once. All that counts is whether
// the others have that one; not that its own list, in order, would come to it three sweeps later.
TEST(S3, AWaitAheadOfTheOwnListIsNoLonger) {
  Perturbations drawn;
  drawn.syncs = {{0, 4, 1}, {1, 1, 1}, {2, 3, 1}, {3, 1, 1}};
  drawn.skips = {{0, 3, 1}, {2, 2, 1}, {3, 0, 4}};
  ExpectDefault({{{1, 2, 3}, 2}, {{0, 3}, 3}, {{0, 1, 2}, 2}}, drawn, false);
}

// The same in a round that is called a deadlock, and is not if that wait is taken for longer.
TEST(S3, AWaitAheadOfTheOwnListHidesNoDeadlock) {
  Perturbations drawn;
  drawn.syncs = {{0, 6, 1}, {1, 4, 1}, {2, 1, 1}, {2, 4, 2}, {3, 3, 2}, {3, 5, 1}};
  drawn.skips = {{2, 1, 1}, {2, 2, 1}, {2, 3, 1}, {2, 4, 1}, {3, 2, 3}, {3, 4, 2}};
  ExpectDefault(
      {{{0, 3}, 2}, {{1, 2, 3}, 2}, {{0, 1, 2, 3}, 3}, {{0, 3}, 1}, {{0, 2}, 1}, {{1, 2}, 1}},
      drawn, true);
}

TEST(S3, TheTablesConfigurations) {
  const Model sync = Model::kStreamWithSync;
  for (const Config& config :
       {With(ShippedMegatron(), sync, 0.1, 0.1), With(Megatron(3, 2, 1, 5, 12), sync, 0.05, 0.2)}) {
    const TwinCounts counts = CompareSync(config, 5, 10000, false);
    EXPECT_EQ(counts.differences, 0) << counts.first;
    EXPECT_GT(counts.exact, 0);
  }
  for (const auto& [config, rounds] :
       {std::pair{With(Free64(), sync, 2e-3, 2e-3), 20},
        {With(Free64(), sync, 4e-5, 8e-5), 200},
        {With(Megatron(4, 4, 4, 400, 1200), sync, 4e-3, 4e-3), 200}}) {
    const TwinCounts counts = CompareSync(config, 6, rounds, false);
    EXPECT_EQ(counts.differences, 0) << counts.first;
  }
  for (const auto& [config, p, rounds] : {std::tuple{Megatron(3, 2, 1, 5, 12), 0.02, 10000},
                                          {Megatron(4, 4, 1, 400, 1200), 1e-4, 200},
                                          {OneGroup(), 1e-3, 1000}}) {
    const TwinCounts counts = CompareSingle(With(config, Model::kSingle, p, 0), 7, rounds, false);
    EXPECT_EQ(counts.differences, 0) << counts.first;
    EXPECT_GT(counts.by_default, 0);
  }
}

TEST(S3, WithoutDisorderNothingDeadlocks) {
  for (uint64_t job = 0; job < 100; ++job) {
    Problem problem;
    ASSERT_EQ(BuildProblem(RandomJob(job, 6, 12), true, &problem), "");
    for (const Component& c : problem.components) {
      const PerturbationSource source(c, 0, 0.3);
      Fixpoint any(c, kUnbounded);
      Fixpoint two(c, 2);
      Fixpoint one(c, 1);
      Perturbations drawn;
      for (uint64_t r = 0; r < 300; ++r) {
        source.Draw(job, r, 0, &drawn);
        drawn.Index(c.gpus);
        ASSERT_FALSE(any.Deadlocks(drawn) || two.Deadlocks(drawn) || one.Deadlocks(drawn));
      }
    }
  }
}

}  // namespace
}  // namespace gordian::simulator
