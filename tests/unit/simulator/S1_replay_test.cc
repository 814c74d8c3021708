// S1: on CPython's random stream, the published program's verdict of every round.
#include <gtest/gtest.h>

#include "simulator/dense.h"
#include "tests/unit/simulator/table1.h"

namespace gordian::simulator {
namespace {

Component Whole(const Config& config) {
  Problem problem;
  EXPECT_EQ(BuildProblem(config, false, &problem), "");
  return problem.components.at(0);
}

// Deadlocks among the first rounds of one stream from seed 2023, at each of the counts asked for.
std::vector<int> Deadlocks(const Config& config, Detector detector, const std::vector<int>& at) {
  const Component whole = Whole(config);
  DenseEngine engine(whole, {config.model, detector, config.resource_limit});
  PythonRandom random(2023);
  std::vector<int> counts;
  int rounds = 0;
  int deadlocks = 0;
  for (const int until : at) {
    for (; rounds < until; ++rounds) {
      deadlocks +=
          engine.Replay(config.disorder_prob, config.sync_prob, &random).deadlock ? 1 : 0;
    }
    counts.push_back(deadlocks);
  }
  return counts;
}

using Counts = std::vector<int>;

TEST(S1, CPythonsNumbers) {
  // >>> random.seed(2023); random.random(), random.random()
  PythonRandom random(2023);
  EXPECT_EQ(random.Next(), 0.3829219244542088);
  EXPECT_EQ(random.Next(), 0.9718620884907823);
  // >>> random.seed(2**32 + 5); random.random()
  EXPECT_EQ(PythonRandom({5u, 1u}).Next(), 0.15727238718789782);
}

TEST(S1, ShippedMegatron) {
  EXPECT_EQ(Deadlocks(ShippedMegatron(), Detector::kIntersection, {100, 20000, 100000}),
            (Counts{4, 1109, 5495}));
  EXPECT_EQ(Deadlocks(ShippedMegatron(), Detector::kRing, {20000, 100000}), (Counts{1068, 5259}));
}

TEST(S1, ShippedArbitrary) {
  EXPECT_EQ(Deadlocks(ShippedArbitrary(), Detector::kIntersection, {100, 20000, 100000}),
            (Counts{18, 4010, 20028}));
  EXPECT_EQ(Deadlocks(ShippedArbitrary(), Detector::kRing, {20000, 100000}),
            (Counts{3160, 16212}));
}

TEST(S1, ResourceLimit) {
  EXPECT_EQ(Deadlocks(ShippedArbitrary(2), Detector::kIntersection, {5000}), Counts{2959});
  EXPECT_EQ(Deadlocks(ShippedArbitrary(3), Detector::kIntersection, {5000}), Counts{1044});
  EXPECT_EQ(Deadlocks(ShippedArbitrary(1), Detector::kIntersection, {500}), Counts{500});
}

TEST(S1, OneGroup) {
  EXPECT_EQ(Deadlocks(With(OneGroup(), Model::kSingle, 1e-5, 0), Detector::kIntersection, {100000}),
            Counts{1214});
}

Config Groups(int64_t gpus, std::vector<GroupSpec> groups, Model model) {
  Config config;
  config.gpu_num = gpus;
  config.groups = std::move(groups);
  config.model = model;
  EXPECT_EQ(CheckConfig(config), "");
  return config;
}

constexpr double kShows = 0.1;
constexpr double kNot = 0.9;

TEST(S1, MinimalFalsePositive) {
  const Component c = Whole(
      Groups(4, {{{0, 3}, 2}, {{0, 2}, 2}, {{1, 2}, 2}}, Model::kStreamWithSync));
  // GPUs 0, 1 and 2 emit, GPU 3 waits for nothing; then 0, 1 and 2 wait.
  const std::vector<double> tape{kNot, kNot, kNot, kNot, kNot, kNot, kShows, kShows, kShows, kShows};
  DenseEngine by_default(c, {Model::kStreamWithSync, Detector::kIntersection, -1});
  size_t used = 0;
  const RoundResult result = by_default.RunTape(0, 0.5, tape, &used);
  EXPECT_TRUE(result.deadlock);
  EXPECT_EQ(result.sweep, 1u);
  EXPECT_EQ(result.gpu, 2u);
  EXPECT_EQ(used, tape.size());
  DenseEngine ring(c, {Model::kStreamWithSync, Detector::kRing, -1});
  EXPECT_FALSE(ring.RunTape(0, 0.5, tape).deadlock);
}

TEST(S1, MinimalLostCollective) {
  for (const auto& [last, deadlock] : {std::pair{1u, true}, {3u, false}}) {
    const Component c =
        Whole(Groups(3, {{{0, 1}, last == 1 ? 4u : 3u}, {{1, 2}, last}}, Model::kSingle));
    DenseEngine engine(c, {.model = Model::kSingle});
    EXPECT_EQ(engine.RunTape(0, 0, {}).deadlock, deadlock) << last;
  }
}

TEST(S1, MinimalDeadlock) {
  const Component c = Whole(Groups(2, {{{0, 1}, 2}}, Model::kStreamWithSync));
  // GPU 0 emits the first, GPU 1 passes it over; both wait.
  const std::vector<double> tape{kNot, kNot, kNot, kShows, kNot, kShows, kShows};
  for (const Detector detector : {Detector::kIntersection, Detector::kRing}) {
    DenseEngine engine(c, {Model::kStreamWithSync, detector, -1});
    const RoundResult result = engine.RunTape(0.5, 0.5, tape);
    EXPECT_TRUE(result.deadlock);
    EXPECT_EQ(result.gpu, 1u);
    // The twin: nothing is passed over.
    EXPECT_FALSE(engine.RunTape(0.5, 0.5, {kNot, kNot, kNot, kNot, kShows, kShows}).deadlock);
  }
}

}  // namespace
}  // namespace gordian::simulator
