#include "simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "simulator/engine/replay.h"
#include "simulator/sampling/sites.h"
#include "simulator/text.h"

namespace gordian::simulator {
namespace {

constexpr int64_t kDefaultRounds = 100000;
constexpr int64_t kPilotRounds = 8192;
constexpr int64_t kMostPilotRounds = int64_t{1} << 24;
constexpr int64_t kMostRounds = int64_t{1} << 44;
constexpr double kFewWaits = 1;        // expected per round; below it, conditions their number
constexpr double kRestMatters = 1e-3;  // p + q above which it also counts deadlocks without a site

class Run {
 public:
  Run(const Config& config, const SimulateOptions& options, const Problem& problem,
      SimulateReport* report)
      : config_(config), options_(options), problem_(problem), report_(report) {
    sampler_ = SamplerOf(config, options);
    p_ = config.disorder_prob;
    q_ = config.model == Model::kSingle ? 0 : config.sync_prob;
  }

  void Go() {
    FirstOrder();
    if (options_.relative_error > 0) {
      // Uses the best estimator for each detector; they may sample different rounds.
      if (options_.wanted.exact) {
        report_->exact.estimate = ToPrecision(true, &report_->exact.why);
      }
      if (options_.wanted.by_default) {
        report_->by_default.estimate = ToPrecision(false, &report_->by_default.why);
      }
      if (options_.wanted.exact && options_.wanted.by_default &&
          report_->by_default.estimate.ratio > 0) {
        report_->false_share = std::clamp(
            1 - report_->exact.estimate.ratio / report_->by_default.estimate.ratio, 0.0, 1.0);
      }
    } else {
      Plain();
    }
    report_->by_default.asked = options_.wanted.by_default;
    report_->exact.asked = options_.wanted.exact;
    report_->complete = (!report_->exact.asked || report_->exact.estimate.complete) &&
                        (!report_->by_default.asked || report_->by_default.estimate.complete);
  }

 private:
  void FirstOrder() {
    const bool single = config_.model == Model::kSingle;
    double none = 0;
    uint64_t sum = 0;
    bool known = true;
    for (const Component& c : problem_.components) {
      report_->common_order &= c.common_order;
      const std::optional<uint64_t> counted =
          single ? CountM1(c, options_.control.stop) : CountM2(c, options_.control.stop);
      known &= counted.has_value();
      sum += counted.value_or(0) * c.copies;
    }
    none = static_cast<double>(sum) * p_ * (single ? 1 : q_ * q_);
    const bool as_modelled = single || sampler_.capacity == kUnbounded;
    if (!known || !report_->common_order) {
      return;
    }
    (single ? report_->m1 : report_->m2) = sum;
    if (as_modelled) {
      report_->first_order = -std::expm1(-none);
    }
  }

  void Plain() {
    const int64_t n = options_.rounds > 0        ? options_.rounds
                      : config_.total_rounds > 0 ? config_.Rounds()
                                                 : kDefaultRounds;
    const PlainCounts counts = CountPlain(problem_, sampler_, options_.seed, n, options_.control);
    report_->rounds = report_->distinct_rounds = counts.rounds;
    report_->by_default.estimate = PlainEstimate(counts.by_default, counts);
    report_->exact.estimate = PlainEstimate(counts.exact, counts);
    if (options_.wanted.exact && options_.wanted.by_default && counts.by_default > 0) {
      report_->false_share =
          static_cast<double>(counts.not_exact) / static_cast<double>(counts.by_default);
    }
  }

  // Chooses rounds or samples, from a pilot, so that the relative half-width is about the wanted
  // one.
  enum class Way { kPlain, kPair, kSwap, kConditioned };

  Way Choose(bool exact, std::string* why) const {
    const bool single = config_.model == Model::kSingle;
    const bool ordered = report_->common_order;
    const double expected = report_->first_order.value_or(1);
    // A forced sample costs about as much as a round, and its relative variance is near 1; that of
    // a plain round is 1 / P.
    const bool rare = expected < 0.02;
    const double waits = static_cast<double>(WaitPlaces(problem_)) * q_;
    if (exact && ordered && !single && sampler_.capacity == kUnbounded && p_ > 0 && q_ > 0 &&
        rare && report_->m2.value_or(0) > 0) {
      *why = "first order p*q^2*M2 = " + Digits(expected) +
             ": forcing a site of two waits and a skip, as plain rounds would need " +
             Digits(3.84 / expected / options_.relative_error / options_.relative_error);
      return Way::kPair;
    }
    const bool level = single && !exact && IsLevel();
    if (ordered && p_ > 0 && p_ < 1 && (exact || level) && (!single || rare) &&
        static_cast<double>(SkipPlaces(problem_)) * p_ < 1 &&
        (single || sampler_.capacity != kUnbounded)) {
      *why = "less than one skip per round is expected: forcing one";
      return Way::kSwap;
    }
    if (!single && ordered && config_.resource_limit <= 0 && waits < kFewWaits && q_ > 0 &&
        sampler_.capacity == kUnbounded) {
      *why = Digits(waits) +
             " waits per round are expected: drawing their number from those that can conflict";
      return Way::kConditioned;
    }
    *why = "deadlocks are frequent enough for plain rounds";
    return Way::kPlain;
  }

  bool IsLevel() const {
    return std::all_of(problem_.components.begin(), problem_.components.end(),
                       [](const Component& c) { return SingleWindow(c).is_level(); });
  }

  Estimate Sample(Way way, bool exact, uint64_t seed, int64_t n, int64_t rest) const {
    SamplerOptions only = sampler_;
    only.wanted = {!exact, exact};
    switch (way) {
      case Way::kPair:
        return ForcedPair(problem_, only, seed, n, rest, options_.control);
      case Way::kSwap:
        return ForcedSwap(problem_, only, exact, seed, n, options_.control);
      case Way::kConditioned:
        return ConditionedCounts(problem_, only, exact, seed, n, options_.control);
      case Way::kPlain:
        break;
    }
    const PlainCounts counts = CountPlain(problem_, only, seed, n, options_.control);
    return PlainEstimate(exact ? counts.exact : counts.by_default, counts);
  }

  Estimate ToPrecision(bool exact, std::string* why) const {
    if (exact && report_->common_order && p_ <= 0) {
      *why = "without disorder, lists of one common order never deadlock";
      Estimate none;
      none.interval = {0, 0};
      none.method = "proven";
      return none;
    }
    const Way way = Choose(exact, why);
    const uint64_t pilot_seed = MixBits(options_.seed ^ 0x5eed);
    int64_t pilot_n = kPilotRounds;
    Estimate pilot = Sample(way, exact, pilot_seed, pilot_n, 0);
    while (pilot.hits < 20 && pilot_n < kMostPilotRounds && pilot.complete) {
      pilot_n *= 8;
      pilot = Sample(way, exact, pilot_seed, pilot_n, 0);
    }
    if (pilot.hits == 0 || !pilot.complete) {
      *why += "; the pilot of " + std::to_string(pilot.n) +
              " found too few deadlocks to extrapolate: its result stands";
      return pilot;
    }
    // For a counting estimate the share of hits gives the number needed, for a weighted one the
    // variance.
    const double target = options_.relative_error;
    double relative = 0;
    if (pilot.variance > 0 || way == Way::kPair || way == Way::kSwap) {
      relative = pilot.variance / (pilot.ratio * pilot.ratio);
    } else {
      const double share = static_cast<double>(pilot.hits) / static_cast<double>(pilot.n);
      relative = (1 - share) / share;
    }
    // Adds a tenth for the pilot's own error.
    const double needed = 1.1 * kZ95 * kZ95 * relative / (target * target);
    const int64_t n = std::clamp<int64_t>(static_cast<int64_t>(needed), 1000, kMostRounds);
    int64_t rest = 0;
    if (way == Way::kPair && p_ + q_ > kRestMatters) {
      // Enough rounds that finding none bounds the rest by a third of the wanted width.
      rest = std::clamp<int64_t>(static_cast<int64_t>(12 / (target * pilot.ratio)), 10000,
                                 int64_t{1} << 24);
    }
    return Sample(way, exact, options_.seed, n, rest);
  }

  const Config& config_;
  const SimulateOptions& options_;
  const Problem& problem_;
  SimulateReport* report_;
  SamplerOptions sampler_;
  double p_ = 0;
  double q_ = 0;
};

// Runs on CPython's stream, process by process. With fix_seed the published program seeds each
// process alike; without, from the system: process i then calls random.seed(seed + i) here.
void Replay(const Config& config, const SimulateOptions& options, const Problem& problem,
            SimulateReport* report) {
  const int64_t each = options.rounds > 0        ? options.rounds
                       : config.total_rounds > 0 ? config.total_rounds
                                                 : kDefaultRounds;
  const int64_t processes = config.num_process;
  const int64_t different = config.fix_seed ? 1 : processes;
  const int64_t between = RoundsBetweenLooks(problem);
  PlainCounts by_default;
  PlainCounts exact;
  const auto count = [&](Detector detector, PlainCounts* all) {
    const auto make = [&] {
      return [&, detector](int64_t process) {
        PlainCounts counts;
        ReplayEngine engine(problem.components.front(),
                            {config.model, detector, config.resource_limit});
        PythonRandom random = PythonRandom::OfSeed(
            options.seed + (config.fix_seed ? 0 : static_cast<uint64_t>(process)));
        for (; counts.rounds < each; ++counts.rounds) {
          if (counts.rounds % between == 0 && options.control.stop && options.control.stop()) {
            break;
          }
          counts.by_default +=
              engine.Round(config.disorder_prob, config.sync_prob, &random).deadlock ? 1 : 0;
        }
        return counts;
      };
    };
    RunBlocks<PlainCounts>(0, different, options.control.threads, nullptr, options.control.progress,
                           make, [&](const PlainCounts& counts) {
                             all->rounds += counts.rounds;
                             all->by_default += counts.by_default;
                             all->complete &= counts.rounds == each;
                           });
  };
  if (options.wanted.by_default) {
    count(Detector::kIntersection, &by_default);
    report->by_default = {true, PlainEstimate(by_default.by_default, by_default), ""};
  }
  if (options.wanted.exact) {
    count(Detector::kRing, &exact);
    report->exact = {true, PlainEstimate(exact.by_default, exact), ""};
  }
  const PlainCounts& any = options.wanted.by_default ? by_default : exact;
  report->distinct_rounds = any.rounds;
  report->rounds = config.fix_seed ? any.rounds * processes : any.rounds;
  report->complete = any.complete && (!options.wanted.exact || exact.complete);
}

// How often a GPU is expected to be compared with another in a round: at each wait, with all members
// of its groups.
double ExpectedComparisons(const Config& config, const Problem& problem) {
  if (config.model == Model::kSingle) return 0;
  double sum = 0;
  for (const Component& c : problem.components) {
    double places = 0;
    for (uint32_t u = 0; u < c.gpus; ++u) {
      double peers = 0;
      for (uint32_t slot = 0; slot < c.profile[u]->slots; ++slot) {
        peers += c.GroupSize(c.Group(u, slot));
      }
      places += c.Length(u) * peers;
    }
    sum += places * static_cast<double>(c.copies);
  }
  return sum * config.sync_prob;
}

nlohmann::json DetectorToJson(const DetectorReport& report) {
  const Estimate& estimate = report.estimate;
  nlohmann::json out;
  out["ratio"] = estimate.ratio;
  out["low"] = estimate.interval.low;
  out["high"] = estimate.interval.high;
  out["hits"] = estimate.hits;
  out["n"] = estimate.n;
  out["method"] = estimate.method;
  if (!report.why.empty()) {
    out["why"] = report.why;
  }
  out["residual_relative"] = estimate.residual;
  out["complete"] = estimate.complete;
  return out;
}

}  // namespace

SamplerOptions SamplerOf(const Config& config, const SimulateOptions& options) {
  SamplerOptions sampler;
  sampler.model = config.model;
  sampler.disorder_prob = config.disorder_prob;
  sampler.sync_prob = config.model == Model::kSingle ? 0 : config.sync_prob;
  sampler.resource_limit = config.resource_limit;
  sampler.capacity = options.capacity > 0             ? options.capacity
                     : config.model == Model::kSingle ? 1
                                                      : kUnbounded;
  sampler.engine = options.engine.value_or(
      config.model == Model::kStreamWithSync && options.wanted.by_default ? Engine::kEvent
                                                                          : Engine::kSparse);
  sampler.wanted = options.wanted;
  if (sampler.capacity == 1 && config.model == Model::kSingle) {
    sampler.capacity = kUnbounded;  // the model's own bound of 1 applies
  }
  return sampler;
}

std::string Simulate(const Config& config, const SimulateOptions& options, SimulateReport* report) {
  *report = SimulateReport();
  const bool replay = options.engine == Engine::kReplay;
  const bool single = config.model == Model::kSingle;
  if (replay && options.wanted.exact && single) {
    return "--engine replay has only the published detector in the model Single: add --detector "
           "default";
  }
  if (replay && options.relative_error > 0) {
    return "--engine replay runs the published program's rounds: remove --rel-err";
  }
  if (replay && !config.fix_seed &&
      options.seed > UINT64_MAX - static_cast<uint64_t>(config.num_process)) {
    return "--seed must be at most " +
           std::to_string(UINT64_MAX - static_cast<uint64_t>(config.num_process)) +
           ": with fix_seed 0 process i takes the seed plus i";
  }
  if (replay && options.capacity > 0) {
    return "--capacity needs the exact detector, which --engine replay lacks";
  }
  if (options.engine == Engine::kEvent && (single || config.resource_limit > 0)) {
    return "--engine event needs the model StreamWithSync without resource_limit";
  }
  if (options.engine == Engine::kFixpoint && options.wanted.by_default) {
    return "--engine fixpoint has only the exact detector: add --detector exact";
  }
  if (options.engine == Engine::kDense && options.wanted.exact && !options.wanted.by_default) {
    return "--engine dense has only the published detector: add --detector default";
  }
  if (single && options.capacity > 1) {
    return "--capacity must be 1 in the model Single (StreamWithSync has no bound of its own)";
  }
  Problem problem;
  std::string wrong = BuildProblem(config, !replay, &problem);
  if (!wrong.empty()) {
    return wrong;
  }
  constexpr double kMostComparisons = 0x1p35;  // of a round: about a minute
  if (const double expected = ExpectedComparisons(config, problem); expected > kMostComparisons) {
    return "in a round GPUs would be compared about " + Digits(expected, 2) +
           " times, for hours: lower sync_prob, or take smaller groups";
  }
  report->seed = options.seed;
  report->components = problem.component_count;
  report->distinct_components = problem.components.size();
  if (replay) {
    report->engine = Engine::kReplay;
    report->common_order = problem.components.front().common_order;
    Replay(config, options, problem, report);
    return "";
  }
  report->engine = SamplerOf(config, options).engine;
  Run(config, options, problem, report).Go();
  return "";
}

uint64_t HashOf(const Config& config) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : ConfigToJson(config).dump()) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash;
}

nlohmann::json ReportToJson(const Config& config, const SimulateReport& report) {
  nlohmann::json out;
  out["schema"] = "gordian.simulation.v1";
  out["configuration"] = ConfigToJson(config);
  out["configuration_hash"] = Hex(HashOf(config));
  out["gpus"] = config.GpuCount();
  out["groups"] = config.GroupCount();
  out["components"] = report.components;
  out["distinct_components"] = report.distinct_components;
  out["engine"] = EngineName(report.engine);
  out["seed"] = report.seed;
  if (report.rounds > 0) {
    out["rounds"] = report.rounds;
    out["distinct_rounds"] = report.distinct_rounds;
  }
  if (report.by_default.asked) {
    out["default"] = DetectorToJson(report.by_default);
  }
  if (report.exact.asked) {
    out["exact"] = DetectorToJson(report.exact);
  }
  if (report.false_share) {
    out["false_positive_share"] = *report.false_share;
  }
  nlohmann::json first;
  if (report.m1) {
    first["m1"] = *report.m1;
  }
  if (report.m2) {
    first["m2"] = *report.m2;
  }
  if (report.first_order) {
    first["probability"] = *report.first_order;
  }
  if (!first.empty()) {
    out["first_order"] = first;
  }
  out["common_order"] = report.common_order;
  out["complete"] = report.complete;
  return out;
}

}  // namespace gordian::simulator
