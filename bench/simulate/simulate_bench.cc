// The acceptance numbers of the simulator in full: every row of the table, engines against their
// twins, rare estimators, and speed against the published algorithm.
//
//   bench_simulate [S1] [S2] [S3] [S4] [S5]     (none named: all)
//   bench_simulate S2:B7 S3:naive S5:B2         single lines, so that a long run can be gone on
//   with
//   bench_simulate full ...                     ten times the rounds of S2 and S3: about an hour of
//   processor time, of which S2:B5 takes half; intervals are a third as wide
//
// Lines: of S2 and S5 the table's rows; of S3 naive, single, larger, further, ordered.
//
// S5 runs both sides on one core and compares processor time; the slow side is published.py beside
// this file, a re-implementation of ours.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/sampling/estimate.h"
#include "simulator/sampling/sites.h"
#include "simulator/simulate.h"
#include "testing/simulator/table1.h"
#include "testing/simulator/twins.h"

namespace gordian::simulator {
namespace {

int failures = 0;
int64_t share = 10;  // of the full number of rounds, S2 and S3 take so small a part

void Check(bool good) {
  printf("  %s\n", good ? "ok" : "FAILED");
  failures += good ? 0 : 1;
  fflush(stdout);
}

int Cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

double Wall() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double OwnCpu() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

const Row& RowOf(const std::string& name) {
  static const std::vector<Row> rows = Table1();
  for (const Row& row : rows) {
    if (row.name == name) {
      return row;
    }
  }
  fprintf(stderr, "no row %s\n", name.c_str());
  exit(2);
}

// What is to be run: "S2", or "S2:B7" for one line of it.
std::vector<std::string> asked;

bool IsAsked(const std::string& part, const std::string& line) {
  return asked.empty() || std::any_of(asked.begin(), asked.end(), [&](const std::string& one) {
           return one == part || one == part + ":" + line;
         });
}

void Replayed(const std::string& name, const Config& config, Detector detector, int rounds,
              int wanted) {
  Problem problem;
  (void)BuildProblem(config, false, &problem);
  ReplayEngine engine(problem.components.front(), {config.model, detector, config.resource_limit});
  PythonRandom random(2023);
  int deadlocks = 0;
  for (int r = 0; r < rounds; ++r) {
    deadlocks += engine.Round(config.disorder_prob, config.sync_prob, &random).deadlock ? 1 : 0;
  }
  printf("S1 %-34s %6d rounds: %6d, published %6d", name.c_str(), rounds, deadlocks, wanted);
  Check(deadlocks == wanted);
}

void S1() {
  const Detector meet = Detector::kIntersection;
  for (const auto& [rounds, wanted] : {std::pair{100, 4}, {20000, 1109}, {100000, 5495}}) {
    Replayed("megatron_example, default", ShippedMegatron(), meet, rounds, wanted);
  }
  for (const auto& [rounds, wanted] : {std::pair{20000, 1068}, {100000, 5259}}) {
    Replayed("megatron_example, ring", ShippedMegatron(), Detector::kRing, rounds, wanted);
  }
  for (const auto& [rounds, wanted] : {std::pair{100, 18}, {20000, 4010}, {100000, 20028}}) {
    Replayed("arbitrary_example, default", ShippedArbitrary(), meet, rounds, wanted);
  }
  for (const auto& [rounds, wanted] : {std::pair{20000, 3160}, {100000, 16212}}) {
    Replayed("arbitrary_example, ring", ShippedArbitrary(), Detector::kRing, rounds, wanted);
  }
  Replayed("arbitrary_example, limit 2", ShippedArbitrary(2), meet, 5000, 2959);
  Replayed("arbitrary_example, limit 3", ShippedArbitrary(3), meet, 5000, 1044);
  Replayed("A5", RowOf("A5").config, meet, 100000, 1214);
  Replayed("A2", RowOf("A2").config, meet, 10000, 501);
  Replayed("B2", RowOf("B2").config, meet, 5000, 61);
  Replayed("B2, ring", RowOf("B2").config, Detector::kRing, 5000, 59);
  Replayed("B8", RowOf("B8").config, meet, 2000, 79);
}

bool Agree(double ratio, Interval wide, const Known& known) {
  const Interval theirs = Wide(known);
  const double allowed = ratio > known.ratio
                             ? std::hypot(ratio - wide.low, theirs.high - known.ratio)
                             : std::hypot(wide.high - ratio, known.ratio - theirs.low);
  return std::abs(ratio - known.ratio) <= allowed;
}

void PrintCounted(const std::string& name, const char* what, int64_t hits, int64_t n,
                  const Known& known) {
  const Interval wide = WilsonInterval(hits, n, kZ999);
  const Interval own = WilsonInterval(hits, n);
  const double ratio = 100.0 * static_cast<double>(hits) / static_cast<double>(n);
  printf("S2 %-4s %-8s %9lld of %9lld = %.5g %% [%.5g, %.5g], known %.5g [%.5g, %.5g]",
         name.c_str(), what, static_cast<long long>(hits), static_cast<long long>(n), ratio,
         100 * own.low, 100 * own.high, known.ratio, known.low, known.high);
  Check(Agree(ratio, {100 * wide.low, 100 * wide.high}, known));
}

SamplerOptions SamplerOf(const Config& config) {
  return gordian::simulator::SamplerOf(config, SimulateOptions());
}

void S2() {
  for (const Row& row : Table1()) {
    if (!IsAsked("S2", row.name)) {
      continue;
    }
    Problem problem;
    (void)BuildProblem(row.config, true, &problem);
    const bool large = row.config.GpuCount() > 1000;
    const bool single = row.config.model == Model::kSingle;
    // A rows of the large grid by forced swaps, and what is too rare to count by S4's estimators.
    if (single && large) {
      const Estimate estimate =
          ForcedSwap(problem, SamplerOf(row.config), true, 2023, 8000, {.threads = Cores()});
      printf("S2 %-4s exact    forced swap %.5g %% [%.5g, %.5g], known %.5g", row.name.c_str(),
             100 * estimate.ratio, 100 * estimate.interval.low, 100 * estimate.interval.high,
             row.exact.ratio);
      const double more = kZ999 / kZ95;
      const double half = 50 * (estimate.interval.high - estimate.interval.low) * more;
      Check(std::abs(100 * estimate.ratio - row.exact.ratio) <= half + 0.01 * row.exact.ratio);
      continue;
    }
    const int64_t n = (single ? 200000 : 1000000) / share;
    const PlainCounts counts =
        CountPlain(problem, SamplerOf(row.config), 2023, n, {.threads = Cores()});
    PrintCounted(row.name, "default", counts.by_default, n, row.by_default);
    if (row.exact.ratio > 1e-3) {
      PrintCounted(row.name, "exact", counts.exact, n, row.exact);
    }
  }
}

void PrintTwins(const char* what, const TwinCounts& counts) {
  if (counts.rounds == 0) {
    return;
  }
  printf("S3 %-44s %9lld rounds, default %8lld, exact %8lld, differences %lld %s", what,
         static_cast<long long>(counts.rounds), static_cast<long long>(counts.by_default),
         static_cast<long long>(counts.exact), static_cast<long long>(counts.differences),
         counts.first.c_str());
  Check(counts.differences == 0);
}

void Join(uint64_t job, const TwinCounts& more, TwinCounts* all) {
  all->rounds += more.rounds;
  all->by_default += more.by_default;
  all->exact += more.exact;
  if (all->differences == 0 && more.differences > 0) {
    all->first = "job " + std::to_string(job) + ": " + more.first;
  }
  all->differences += more.differences;
}

void S3() {
  TwinCounts naive;
  for (uint64_t job = 0; IsAsked("S3", "naive") && naive.rounds < 1000000 / share; ++job) {
    Join(job,
         CompareSync(With(RandomJob(job, 4, 5), Model::kStreamWithSync, 0.3, 0.3), job, 200, true),
         &naive);
  }
  PrintTwins("all engines = naive, <= 4 GPUs x 5", naive);
  TwinCounts single;
  for (uint64_t job = 0; IsAsked("S3", "single") && single.rounds < 1000000 / share; ++job) {
    Join(job, CompareSingle(With(RandomJob(job, 4, 5), Model::kSingle, 0.3, 0), job, 500, true),
         &single);
  }
  PrintTwins("Single: windows = turns, fixpoint = naive", single);
  TwinCounts larger;
  for (uint64_t job = 0; IsAsked("S3", "larger") && larger.rounds < 1000000 / share; ++job) {
    const double p = job % 3 == 0 ? 0.02 : 0.2;
    Join(
        job,
        CompareSync(With(RandomJob(job, 12, 60), Model::kStreamWithSync, p, 0.1), job, 1000, false),
        &larger);
  }
  PrintTwins("event = turns, ring = fixpoint, <= 12 x 60", larger);
  // Other jobs and random numbers, and rates at which GPUs pass over a good deal more.
  TwinCounts further;
  for (uint64_t job = 1000000; IsAsked("S3", "further") && further.rounds < 5000000 / share;
       ++job) {
    const double p = std::array{0.02, 0.2, 0.4, 0.6}[job % 4];
    const double q = std::array{0.1, 0.03, 0.25}[job % 3];
    Join(job,
         CompareSync(With(RandomJob(job, 12, 60), Model::kStreamWithSync, p, q), job, 1000, false),
         &further);
  }
  PrintTwins("the same, other jobs, p to 0.6", further);
  int64_t rounds = 0;
  int64_t deadlocks = 0;
  for (uint64_t job = 0; IsAsked("S3", "ordered") && rounds < 10000000 / share; ++job) {
    Problem problem;
    (void)BuildProblem(RandomJob(job, 6, 12), true, &problem);
    for (const Component& c : problem.components) {
      const PerturbationSource source(c, 0, 0.3);
      Fixpoint fixpoint(c, kUnbounded);
      Perturbations drawn;
      for (uint64_t r = 0; r < 5000; ++r, ++rounds) {
        source.Draw(job, r, 0, &drawn);
        drawn.Index(c.gpus);
        deadlocks += fixpoint.Deadlocks(drawn) ? 1 : 0;
      }
    }
  }
  if (rounds == 0) {
    return;
  }
  printf("S3 p = 0: %lld deadlocks in %lld rounds", static_cast<long long>(deadlocks),
         static_cast<long long>(rounds));
  Check(deadlocks == 0);
}

void S4() {
  for (const char* name : {"B6", "B7", "B8", "B9", "B10"}) {
    const Row& row = RowOf(name);
    SimulateOptions options;
    options.wanted = {false, true};
    options.relative_error = 0.01;
    options.control.threads = Cores();
    SimulateReport report;
    const double begin = Wall();
    (void)Simulate(row.config, options, &report);
    const double seconds = Wall() - begin;
    const Estimate& e = report.exact.estimate;
    printf(
        "S4 %-4s exact %.5g %% [%.5g, %.5g], known %.5g: %+.2f %%, +-%.2f %%, %lld samples, %.1f s",
        name, 100 * e.ratio, 100 * e.interval.low, 100 * e.interval.high, row.exact.ratio,
        100 * (100 * e.ratio / row.exact.ratio - 1),
        50 * (e.interval.high - e.interval.low) / e.ratio, static_cast<long long>(e.n), seconds);
    Check(std::abs(100 * e.ratio / row.exact.ratio - 1) <= 0.02 && seconds < 60);
  }
  Problem problem;
  const Config check = With(Free64(), Model::kStreamWithSync, 2e-3, 5e-4);
  (void)BuildProblem(check, true, &problem);
  const SamplerOptions options = SamplerOf(check);
  const Estimate truth = ForcedPair(problem, options, 77, 400000, 0, {.threads = Cores()});
  int covered = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Estimate e = ForcedPair(problem, options, 1000 + seed, 400, 0, {.threads = 1});
    covered += e.interval.low <= truth.ratio && truth.ratio <= e.interval.high ? 1 : 0;
  }
  printf("S4 check point %.4g [%.4g, %.4g] (1.152e-4 +- 0.7 %%), covered by %d of 1000 seeds",
         truth.ratio, truth.interval.low, truth.interval.high, covered);
  Check(covered >= 930 && std::abs(truth.ratio / 1.152e-4 - 1) < 0.014);
  const Config rare = With(Free64(), Model::kStreamWithSync, 4e-5, 4e-6);
  const Estimate counts =
      ConditionedCounts(problem, SamplerOf(rare), false, 5, 4000000, {.threads = Cores()});
  printf("S4 conditioned counts %.4g [%.4g, %.4g], plain rounds 6.04e-6 [5.58e-6, 6.54e-6]",
         counts.ratio, counts.interval.low, counts.interval.high);
  Check(counts.interval.high > 5.58e-6 && counts.interval.low < 6.54e-6);
}

// Rounds a second of processor time of the re-implementation in Python; 0: it could not be run.
double PublishedRate(const Config& config, int rounds) {
  char path[] = "/tmp/gordian-bench-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) {
    return 0;
  }
  close(fd);
  {
    std::ofstream file(path);
    file << ConfigToJson(config).dump();
  }
  const std::string command =
      std::string("python3 ") + GORDIAN_PUBLISHED + " " + path + " " + std::to_string(rounds);
  FILE* out = popen(command.c_str(), "r");
  int deadlocks = 0;
  int done = 0;
  double seconds = 0;
  const bool read = out != nullptr && fscanf(out, "%d %d %lf", &deadlocks, &done, &seconds) == 3;
  const bool ended = out != nullptr && pclose(out) == 0;
  unlink(path);
  return read && ended && seconds > 0 ? done / seconds : 0;
}

// Rounds a second of this thread's processor time, for about two seconds of it.
double OwnRate(const Config& config, Wanted wanted) {
  Problem problem;
  (void)BuildProblem(config, true, &problem);
  SimulateOptions simulate;
  simulate.wanted = wanted;
  RoundSampler sampler(problem, gordian::simulator::SamplerOf(config, simulate));
  const double begin = OwnCpu();
  uint64_t rounds = 0;
  while (OwnCpu() - begin < 2) {
    for (int i = 0; i < 16; ++i) {
      (void)sampler.Round(1, rounds++);
    }
  }
  return static_cast<double>(rounds) / (OwnCpu() - begin);
}

double ReplayRate(const Config& config) {
  Problem problem;
  (void)BuildProblem(config, false, &problem);
  ReplayEngine engine(problem.components.front(), {config.model, Detector::kIntersection, -1});
  PythonRandom random(2023);
  const double begin = OwnCpu();
  int rounds = 0;
  for (; OwnCpu() - begin < 2; ++rounds) {
    (void)engine.Round(config.disorder_prob, config.sync_prob, &random);
  }
  return rounds / (OwnCpu() - begin);
}

// Rounds a second of wall time.
double WallRate(const Config& config, int threads, int64_t rounds) {
  Problem problem;
  (void)BuildProblem(config, true, &problem);
  SimulateOptions simulate;
  simulate.wanted = {true, false};
  const double begin = Wall();
  const PlainCounts counts = CountPlain(problem, gordian::simulator::SamplerOf(config, simulate), 1,
                                        rounds, {.threads = threads});
  return static_cast<double>(counts.rounds) / (Wall() - begin);
}

void S5() {
  printf(
      "S5 rounds per second of processor time, one core; published algorithm in Python (ours), "
      "and\n   what the published program itself did in an earlier measurement (another day, same "
      "kind of machine)\n");
  struct Speed {
    const char* name;
    int rounds;         // of the slow side
    double replay;      // how many times as fast its replay is to be; 0: not asked
    double both_cores;  // the same of the chosen engine on two cores
    int64_t wall_rounds;
  };
  for (const Speed& speed : {Speed{"A1", 8, 0, 0, 0},
                             {"A2", 8, 300, 0, 0},
                             {"A4", 1, 0, 0, 0},
                             {"A5", 2000, 0, 0, 0},
                             {"A6", 500, 0, 0, 0},
                             {"A7", 500, 0, 0, 0},
                             {"A8", 500, 0, 0, 0},
                             {"B1", 6, 0, 0, 0},
                             {"B2", 6, 300, 20000, 32768},
                             {"B3", 6, 0, 0, 0},
                             {"B4", 3, 0, 0, 0},
                             {"B5", 1, 0, 0, 0},
                             {"B6", 6, 0, 0, 0},
                             {"B7", 6, 0, 1e6, 2097152},
                             {"B8", 6, 0, 0, 0},
                             {"B9", 3, 0, 0, 0},
                             {"B10", 3, 0, 0, 0}}) {
    const char* name = speed.name;
    if (!IsAsked("S5", name)) {
      continue;
    }
    const Row& row = RowOf(name);
    const double slow = PublishedRate(row.config, speed.rounds);
    const double fast = OwnRate(row.config, {true, false});
    const double replay = row.config.GpuCount() > 1000 ? 0 : ReplayRate(row.config);
    printf(
        "S5 %-4s ratio %.0f (replay %.0f): %.4g rounds/s (replay %.4g), Python %.4g; the published "
        "program, earlier, %.4g: ratio %.0f, replay %.0f",
        name, slow > 0 ? fast / slow : 0, slow > 0 ? replay / slow : 0, fast, replay, slow,
        row.original_rate, row.original_rate > 0 ? fast / row.original_rate : 0,
        row.original_rate > 0 ? replay / row.original_rate : 0);
    Check(slow > 0 && fast / slow >= 1000);
    if (speed.replay > 0) {
      printf("S5 %-4s replay at least %.0f times Python", name, speed.replay);
      Check(slow > 0 && replay / slow >= speed.replay);
    }
    if (speed.both_cores > 0) {
      const double one = WallRate(row.config, 1, speed.wall_rounds);
      const double two = WallRate(row.config, 2, speed.wall_rounds);
      printf(
          "S5 %-4s two threads, wall time: %.4g rounds/s, %.0f times Python (%.0f asked), %.0f "
          "times the published program",
          name, two, slow > 0 ? two / slow : 0, speed.both_cores, two / row.original_rate);
      Check(slow > 0 && two / slow >= speed.both_cores);
      printf("S5 %-4s two threads are %.2f times one", name, two / one);
      Check(two / one >= 1.8);
    }
  }
}

}  // namespace

int Main(int argc, char** argv) {
  const std::vector<std::pair<std::string, void (*)()>> parts{
      {"S1", S1}, {"S2", S2}, {"S3", S3}, {"S4", S4}, {"S5", S5}};
  asked.assign(argv + 1, argv + argc);
  if (std::erase(asked, "full") > 0) share = 1;
  for (const auto& [name, run] : parts) {
    if (asked.empty() || std::any_of(asked.begin(), asked.end(), [&](const std::string& one) {
          return one == name || one.starts_with(name + ":");
        })) {
      const double begin = Wall();
      run();
      printf("%s took %.0f s\n", name.c_str(), Wall() - begin);
      fflush(stdout);
    }
  }
  printf("%d lines failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace gordian::simulator

int main(int argc, char** argv) { return gordian::simulator::Main(argc, argv); }
