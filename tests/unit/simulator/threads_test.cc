// S3: results depend on the seed alone, not on who draws.
#include <gtest/gtest.h>

#include "simulator/sampling/estimate.h"
#include "testing/simulator/table1.h"

namespace gordian::simulator {
namespace {

TEST(S3, ThreadsChangeNothing) {
  const Config config = With(Free64(), Model::kStreamWithSync, 2e-3, 5e-4);
  Problem problem;
  ASSERT_EQ(BuildProblem(config, true, &problem), "");
  SamplerOptions options;
  options.model = config.model;
  options.disorder_prob = config.disorder_prob;
  options.sync_prob = config.sync_prob;
  const PlainCounts one = CountPlain(problem, options, 9, 10000, {.threads = 1});
  const Estimate pair = ForcedPair(problem, options, 9, 10000, 5000, {.threads = 1});
  for (const int threads : {2, 7}) {
    const PlainCounts more = CountPlain(problem, options, 9, 10000, {.threads = threads});
    EXPECT_EQ(one.by_default, more.by_default);
    EXPECT_EQ(one.exact, more.exact);
    const Estimate again = ForcedPair(problem, options, 9, 10000, 5000, {.threads = threads});
    EXPECT_EQ(pair.ratio, again.ratio);
    EXPECT_EQ(pair.interval.low, again.interval.low);
  }
}

}  // namespace
}  // namespace gordian::simulator
