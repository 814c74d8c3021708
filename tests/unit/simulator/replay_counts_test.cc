// S1: on CPython's random stream, the published program's verdict of every round.
#include <gtest/gtest.h>

#include <array>

#include "simulator/engine/dense.h"
#include "simulator/engine/replay.h"
#include "simulator/simulate.h"
#include "testing/simulator/table1.h"
#include "testing/simulator/twins.h"

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
  ReplayEngine engine(whole, {config.model, detector, config.resource_limit});
  PythonRandom random(2023);
  std::vector<int> counts;
  int rounds = 0;
  int deadlocks = 0;
  for (const int until : at) {
    for (; rounds < until; ++rounds) {
      deadlocks += engine.Round(config.disorder_prob, config.sync_prob, &random).deadlock ? 1 : 0;
    }
    counts.push_back(deadlocks);
  }
  return counts;
}

// What CPython 3.11 prints after random.seed(seed): int(random.random() * 2**53), three times.
TEST(S1, SeedsAreCPythons) {
  const std::pair<uint64_t, std::array<uint64_t, 3>> known[] = {
      {0ull, {7605875871743422ull, 6827046333291546ull, 3788172029424828ull}},
      {2023ull, {3449054072567936ull, 8753755479165198ull, 7600431665419060ull}},
      {4294967295ull, {5722791097298963ull, 1830262344024830ull, 5470672014208887ull}},
      {4294967296ull, {1017762183364142ull, 3763467840202643ull, 150207355903644ull}},
      {4294967301ull, {1416583728670170ull, 2544413378037945ull, 5444437905203073ull}},
      {18446744073709551615ull, {196588387352524ull, 3045291976137196ull, 1909233386979945ull}},
  };
  for (const auto& [seed, numbers] : known) {
    PythonRandom random = PythonRandom::OfSeed(seed);
    for (const uint64_t number : numbers) EXPECT_EQ(random.Next53(), number) << seed;
  }
}

// With fix_seed 0 process i goes by the seed plus i.
TEST(S1, ProcessesOfTheirOwnSeed) {
  Config config = ShippedArbitrary();
  config.num_process = 3;
  SimulateOptions options;
  options.engine = Engine::kReplay;
  options.wanted = {true, false};
  options.rounds = 500;
  const auto hits = [&](uint64_t seed) {
    options.seed = seed;
    SimulateReport report;
    EXPECT_EQ(Simulate(config, options, &report), "");
    EXPECT_EQ(report.distinct_rounds, config.fix_seed ? 500 : 1500);
    return report.by_default.estimate.hits;
  };
  for (const uint64_t seed : {uint64_t{2023}, (uint64_t{1} << 32) - 1}) {
    config.fix_seed = true;
    const int64_t apart = hits(seed) + hits(seed + 1) + hits(seed + 2);
    EXPECT_NE(hits(seed), hits(seed + 1));
    config.fix_seed = false;
    EXPECT_EQ(hits(seed), apart);
  }
  options.seed = UINT64_MAX - 1;
  SimulateReport report;
  EXPECT_NE(Simulate(config, options, &report).find("--seed"), std::string::npos);
}

// Drawing number by number and looking through those that do nothing are the same: verdict, where
// the round ended, and which number comes next.
void SameAsTurnByTurn(const Config& config, Detector detector, int rounds, int64_t* deadlocks) {
  const Component whole = Whole(config);
  const DenseOptions options{config.model, detector, config.resource_limit};
  ReplayEngine engine(whole, options);
  DenseEngine twin(whole, options);
  PythonRandom random(7);
  PythonRandom again(7);
  for (int r = 0; r < rounds; ++r) {
    const RoundResult one = engine.Round(config.disorder_prob, config.sync_prob, &random);
    const RoundResult other = twin.Replay(config.disorder_prob, config.sync_prob, &again);
    ASSERT_EQ(one.deadlock, other.deadlock) << "round " << r;
    ASSERT_EQ(one.by_resource, other.by_resource) << "round " << r;
    ASSERT_EQ(one.sweep, other.sweep) << "round " << r;
    ASSERT_EQ(one.gpu, other.gpu) << "round " << r;
    ASSERT_EQ(random.Next53(), again.Next53()) << "round " << r;
    *deadlocks += one.deadlock ? 1 : 0;
  }
}

TEST(S1, LookingThroughIsDrawing) {
  for (const Model model : {Model::kStreamWithSync, Model::kSingle}) {
    for (const Detector detector : {Detector::kIntersection, Detector::kRing}) {
      int64_t deadlocks = 0;
      int64_t rounds = 0;
      for (uint64_t job = 0; job < 60; ++job, rounds += 200) {
        for (const double p : {0.0, 0.002, 0.3}) {
          for (const double q : {0.002, 0.3}) {
            const Config config = With(RandomJob(job, 7, 30), model, p, q);
            ASSERT_NO_FATAL_FAILURE(SameAsTurnByTurn(config, detector, 200, &deadlocks)) << job;
          }
        }
      }
      EXPECT_GT(deadlocks, 100);
      EXPECT_LT(deadlocks, 6 * rounds - 100);
    }
  }
  int64_t deadlocks = 0;
  SameAsTurnByTurn(With(Megatron(4, 4, 1, 40, 120), Model::kSingle, 1e-3, 0),
                   Detector::kIntersection, 3000, &deadlocks);
  EXPECT_GT(deadlocks, 100);
  SameAsTurnByTurn(With(Megatron(4, 4, 4, 40, 120), Model::kStreamWithSync, 4e-3, 4e-3),
                   Detector::kIntersection, 1000, &deadlocks);
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
  EXPECT_EQ(Deadlocks(ShippedArbitrary(), Detector::kRing, {20000, 100000}), (Counts{3160, 16212}));
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
  const Component c =
      Whole(Groups(4, {{{0, 3}, 2}, {{0, 2}, 2}, {{1, 2}, 2}}, Model::kStreamWithSync));
  // GPUs 0, 1 and 2 emit, GPU 3 waits for nothing; then 0, 1 and 2 wait.
  const std::vector<double> tape{kNot, kNot,   kNot,   kNot,   kNot,
                                 kNot, kShows, kShows, kShows, kShows};
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
