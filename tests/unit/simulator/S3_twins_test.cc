// S3: every engine against its twin, on the same perturbations. In full: ./dev bench simulate S3.
#include <gtest/gtest.h>

#include "simulator/fixpoint.h"
#include "tests/unit/simulator/table1.h"
#include "tests/unit/simulator/twins.h"

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

TEST(S3, TheTablesConfigurations) {
  const Model sync = Model::kStreamWithSync;
  for (const Config& config :
       {With(ShippedMegatron(), sync, 0.1, 0.1), With(Megatron(3, 2, 1, 5, 12), sync, 0.05, 0.2)}) {
    const TwinCounts counts = CompareSync(config, 5, 10000, false);
    EXPECT_EQ(counts.differences, 0) << counts.first;
    EXPECT_GT(counts.exact, 0);
  }
  for (const auto& [config, rounds] :
       {std::pair{With(Free64(), sync, 2e-3, 2e-3), 20}, {With(Free64(), sync, 4e-5, 8e-5), 200},
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
