#include "simulator/sampling/estimate.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "simulator/sampling/sites.h"

namespace gordian::simulator {
namespace {

// Weighted samples of a block, separate for each distinct component.
struct WeightedBlock {
  int64_t n = 0;
  int64_t hits = 0;
  double sum = 0;
  double squares = 0;
  std::vector<double> of_component;

  void Hit(size_t component, double weight) {
    ++hits;
    sum += weight;
    squares += weight * weight;
    of_component[component] += weight;
  }
};

// Turns sums over blocks into P: `scale` times the mean weight is the expected number of copies
// that deadlock.
Estimate FromWeights(const Problem& problem, double scale, const WeightedBlock& all) {
  Estimate estimate;
  estimate.n = all.n;
  estimate.hits = all.hits;
  if (all.n == 0) {
    estimate.interval = {0, 1};
    return estimate;
  }
  const auto n = static_cast<double>(all.n);
  double none = 0;  // ln of the probability that no copy deadlocks
  for (size_t i = 0; i < problem.components.size(); ++i) {
    const auto copies = static_cast<double>(problem.components[i].copies);
    const double each = scale * all.of_component[i] / n / copies;
    none += copies * std::log1p(-std::min(each, 1 - 1e-12));
  }
  estimate.ratio = -std::expm1(none);
  const double mean = all.sum / n;
  const double slope = scale * std::exp(none);  // of P, by the mean weight
  estimate.variance = slope * slope * std::max(0.0, all.squares / n - mean * mean);
  estimate.interval = NormalInterval(estimate.ratio, estimate.variance / n);
  if (all.hits == 0) {
    // Weights lie between 0 and 1, so their mean is at most that of hits.
    estimate.interval.high = std::min(1.0, scale * WilsonInterval(0, all.n).high);
  }
  return estimate;
}

void Add(const WeightedBlock& block, WeightedBlock* all) {
  all->n += block.n;
  all->hits += block.hits;
  all->sum += block.sum;
  all->squares += block.squares;
  all->of_component.resize(std::max(all->of_component.size(), block.of_component.size()));
  for (size_t i = 0; i < block.of_component.size(); ++i) {
    all->of_component[i] += block.of_component[i];
  }
}

// A block may take long, so a stop keeps the blocks already done.
class Looks {
 public:
  Looks(const Problem& problem, const RunControl& control)
      : control_(control), between_(RoundsBetweenLooks(problem)) {}

  bool StopsHere(int64_t round) const {
    return control_.stop && round % between_ == between_ - 1 && control_.stop();
  }

 private:
  const RunControl& control_;
  const int64_t between_;
};

int64_t BlocksOf(int64_t n) { return (n + kBlock - 1) / kBlock; }

// Finds the owner of `number` when ranges of these weights lie in a row, and its number there.
template <class Weight>
size_t Locate(const Problem& problem, const Weight& weight, uint64_t* number) {
  for (size_t i = 0; i + 1 < problem.components.size(); ++i) {
    const uint64_t mine = weight(i) * problem.components[i].copies;
    if (*number < mine) {
      *number /= problem.components[i].copies;
      return i;
    }
    *number -= mine;
  }
  const size_t last = problem.components.size() - 1;
  *number /= problem.components[last].copies;
  return last;
}

void AddSkip(const Component& c, uint32_t gpu, uint32_t at, Perturbations* drawn) {
  Perturbations::Insert(&drawn->skips, gpu, at);
  for (Mark& mark : drawn->skips) {
    if (mark.gpu == gpu && mark.at == at) {
      mark.times = std::min(mark.times, c.Length(gpu) - at - 1);
    }
  }
}

class PairForcer {
 public:
  PairForcer(const Problem& problem) : problem_(problem) {  // NOLINT
    for (const Component& component : problem.components) {
      sites_.push_back(std::make_unique<PairSites>(component));
      total_ += sites_.back()->count() * component.copies;
    }
  }

  uint64_t total() const { return total_; }
  const PairSites& sites(size_t component) const { return *sites_[component]; }

  // which component
  size_t Draw(const PerturbationSource* const* sources, uint64_t seed, uint64_t sample,
              Perturbations* drawn) const {
    uint64_t number = CounterStream(seed, sample, 0, Purpose::kSite).Below(total_);
    const size_t i = Locate(
        problem_, [&](size_t at) { return sites_[at]->count(); }, &number);
    const PairSite site = sites_[i]->Site(number);
    sources[i]->Draw(seed, sample, 0, drawn);
    AddSkip(problem_.components[i], site.gpu, site.at, drawn);
    Perturbations::Insert(&drawn->syncs, site.gpu, site.at + 1);
    Perturbations::Insert(&drawn->syncs, site.other, site.wait);
    return i;
  }

 private:
  const Problem& problem_;
  std::vector<std::unique_ptr<PairSites>> sites_;
  uint64_t total_ = 0;
};

// Deadlocks of plain rounds without a site.
struct RestBlock {
  int64_t n = 0;
  int64_t hits = 0;
};

Estimate RestWithoutSites(const Problem& problem, const SamplerOptions& options,
                          const PairForcer& forcer, uint64_t seed, int64_t rounds,
                          const RunControl& control) {
  RestBlock all;
  const Looks looks(problem, control);
  const auto make = [&] {
    auto sampler = std::make_shared<RoundSampler>(problem, options);
    auto drawn = std::make_shared<Perturbations>();
    return [&, sampler, drawn](int64_t block) {
      RestBlock result;
      const int64_t end = std::min((block + 1) * kBlock, rounds);
      for (int64_t r = block * kBlock; r < end && !looks.StopsHere(r); ++r, ++result.n) {
        uint64_t part = 0;
        bool found = false;
        for (size_t i = 0; i < sampler->judges().size() && !found; ++i) {
          ComponentJudge& judge = *sampler->judges()[i];
          for (uint64_t copy = 0; copy < judge.component().copies && !found; ++copy, ++part) {
            judge.source().Draw(seed, static_cast<uint64_t>(r), part, drawn.get());
            found = judge.IsExact(drawn.get()) && forcer.sites(i).Active(*drawn) == 0;
          }
        }
        result.hits += found ? 1 : 0;
      }
      return result;
    };
  };
  RunBlocks<RestBlock>(0, BlocksOf(rounds), control.threads, control.stop, control.progress, make,
                       [&](const RestBlock& block) {
                         all.n += block.n;
                         all.hits += block.hits;
                       });
  Estimate rest;
  rest.n = all.n;
  rest.hits = all.hits;
  rest.ratio = all.n == 0 ? 0 : static_cast<double>(all.hits) / static_cast<double>(all.n);
  rest.interval = WilsonInterval(all.hits, all.n);
  rest.complete = all.n == rounds;
  return rest;
}

// The sum of independent estimates (Newcombe's method of variance estimates recovery).
Interval SumOf(const Estimate& a, const Estimate& b) {
  const double sum = a.ratio + b.ratio;
  const double down = std::hypot(a.ratio - a.interval.low, b.ratio - b.interval.low);
  const double up = std::hypot(a.interval.high - a.ratio, b.interval.high - b.ratio);
  return {std::max(0.0, sum - down), std::min(1.0, sum + up)};
}

SamplerOptions OnlyExact(SamplerOptions options) {
  options.wanted = {false, true};
  return options;
}

}  // namespace

int64_t RoundsBetweenLooks(const Problem& problem) {
  constexpr uint64_t kFewPlaces = uint64_t{1} << 20;
  return WaitPlaces(problem) < kFewPlaces ? 16 : 1;
}

uint64_t SkipPlaces(const Problem& problem) {
  uint64_t sum = 0;
  for (const Component& c : problem.components) {
    sum += (c.total - c.gpus) * c.copies;
  }
  return sum;
}

uint64_t WaitPlaces(const Problem& problem) {
  uint64_t sum = 0;
  for (const Component& c : problem.components) {
    sum += c.total * c.copies;
  }
  return sum;
}

uint64_t ForcedPairSites(const Problem& problem) { return PairForcer(problem).total(); }

PlainCounts CountPlainFrom(const Problem& problem, const SamplerOptions& options, uint64_t seed,
                           int64_t first_round, int64_t n, const RunControl& control) {
  PlainCounts all;
  const Looks looks(problem, control);
  const auto make = [&] {
    auto sampler = std::make_shared<RoundSampler>(problem, options);
    return [&, sampler](int64_t block) {
      PlainCounts counts;
      const int64_t begin = block * kBlock;
      const int64_t end = std::min(begin + kBlock, first_round + n);
      for (int64_t r = begin; r < end && !looks.StopsHere(r); ++r, ++counts.rounds) {
        const Verdicts verdicts = sampler->Round(seed, static_cast<uint64_t>(r));
        counts.by_default += verdicts.by_default ? 1 : 0;
        counts.exact += verdicts.exact ? 1 : 0;
        counts.not_exact += verdicts.by_default && !verdicts.exact ? 1 : 0;
      }
      return counts;
    };
  };
  RunBlocks<PlainCounts>(first_round / kBlock, BlocksOf(n), control.threads, control.stop,
                         control.progress, make, [&](const PlainCounts& counts) {
                           all.rounds += counts.rounds;
                           all.by_default += counts.by_default;
                           all.exact += counts.exact;
                           all.not_exact += counts.not_exact;
                         });
  all.complete = all.rounds == n;
  return all;
}

PlainCounts CountPlain(const Problem& problem, const SamplerOptions& options, uint64_t seed,
                       int64_t n, const RunControl& control) {
  return CountPlainFrom(problem, options, seed, 0, n, control);
}

Estimate PlainEstimate(int64_t hits, const PlainCounts& counts) {
  Estimate estimate;
  estimate.n = counts.rounds;
  estimate.hits = hits;
  estimate.ratio =
      counts.rounds == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(counts.rounds);
  estimate.interval = WilsonInterval(hits, counts.rounds);
  estimate.method = "plain";
  estimate.complete = counts.complete;
  return estimate;
}

Estimate ForcedPair(const Problem& problem, const SamplerOptions& given, uint64_t seed, int64_t n,
                    int64_t plain_rounds, const RunControl& control) {
  const SamplerOptions options = OnlyExact(given);
  const PairForcer forcer(problem);
  Estimate estimate;
  const double scale = static_cast<double>(forcer.total()) * options.disorder_prob *
                       options.sync_prob * options.sync_prob;
  if (forcer.total() > 0 && scale > 0) {
    WeightedBlock all;
    const Looks looks(problem, control);
    const auto make = [&] {
      auto sampler = std::make_shared<RoundSampler>(problem, options);
      auto drawn = std::make_shared<Perturbations>();
      auto sources = std::make_shared<std::vector<const PerturbationSource*>>();
      for (const auto& judge : sampler->judges()) {
        sources->push_back(&judge->source());
      }
      return [&, sampler, drawn, sources](int64_t block) {
        WeightedBlock result;
        result.of_component.assign(problem.components.size(), 0);
        const int64_t end = std::min((block + 1) * kBlock, n);
        for (int64_t s = block * kBlock; s < end && !looks.StopsHere(s); ++s, ++result.n) {
          const size_t i =
              forcer.Draw(sources->data(), seed, static_cast<uint64_t>(s), drawn.get());
          if (sampler->judges()[i]->IsExact(drawn.get())) {
            result.Hit(i, 1 / static_cast<double>(forcer.sites(i).Active(*drawn)));
          }
        }
        return result;
      };
    };
    all.of_component.assign(problem.components.size(), 0);
    RunBlocks<WeightedBlock>(0, BlocksOf(n), control.threads, control.stop, control.progress, make,
                             [&](const WeightedBlock& block) { Add(block, &all); });
    estimate = FromWeights(problem, scale, all);
    estimate.complete = all.n == n;
  } else {
    estimate.n = n;
    estimate.interval = {0, 0};
  }
  estimate.method = "forced pair";
  estimate.residual = options.disorder_prob + options.sync_prob;
  if (plain_rounds > 0) {
    const Estimate rest =
        RestWithoutSites(problem, options, forcer, MixBits(seed ^ 0x9d7f), plain_rounds, control);
    estimate.interval = SumOf(estimate, rest);
    estimate.ratio += rest.ratio;
    estimate.complete = estimate.complete && rest.complete;
    estimate.residual = 0;
    estimate.method += ", and " + std::to_string(rest.hits) + " of " + std::to_string(rest.n) +
                       " plain rounds without a site";
  }
  return estimate;
}

bool DrawForcedPair(const Problem& problem, const SamplerOptions& options, uint64_t seed,
                    uint64_t sample, size_t* component, Perturbations* drawn) {
  const PairForcer forcer(problem);
  if (forcer.total() == 0) {
    return false;
  }
  std::vector<std::unique_ptr<PerturbationSource>> owned;
  std::vector<const PerturbationSource*> sources;
  for (const Component& c : problem.components) {
    owned.push_back(
        std::make_unique<PerturbationSource>(c, options.disorder_prob, options.sync_prob));
    sources.push_back(owned.back().get());
  }
  *component = forcer.Draw(sources.data(), seed, sample, drawn);
  return true;
}

Estimate ForcedSwap(const Problem& problem, const SamplerOptions& given, bool exact, uint64_t seed,
                    int64_t n, const RunControl& control) {
  SamplerOptions options = given;
  options.wanted = {!exact, exact};
  const uint64_t places = SkipPlaces(problem);
  const double scale = static_cast<double>(places) * options.disorder_prob;
  WeightedBlock all;
  const Looks looks(problem, control);
  const auto make = [&] {
    auto sampler = std::make_shared<RoundSampler>(problem, options);
    auto drawn = std::make_shared<Perturbations>();
    return [&, sampler, drawn](int64_t block) {
      WeightedBlock result;
      result.of_component.assign(problem.components.size(), 0);
      const int64_t end = std::min((block + 1) * kBlock, n);
      for (int64_t s = block * kBlock; s < end && !looks.StopsHere(s); ++s, ++result.n) {
        const auto sample = static_cast<uint64_t>(s);
        uint64_t number = CounterStream(seed, sample, 0, Purpose::kSite).Below(places);
        const size_t i = Locate(
            problem,
            [&](size_t at) { return problem.components[at].total - problem.components[at].gpus; },
            &number);
        const Component& c = problem.components[i];
        uint32_t gpu = 0;  // every place of its list but the last counts
        while (number >= c.Length(gpu) - 1) {
          number -= c.Length(gpu++) - 1;
        }
        sampler->judges()[i]->source().Draw(seed, sample, 0, drawn.get());
        AddSkip(c, gpu, static_cast<uint32_t>(number), drawn.get());
        ComponentJudge& judge = *sampler->judges()[i];
        if (exact ? judge.IsExact(drawn.get()) : judge.IsDefault(drawn.get())) {
          result.Hit(i, 1 / static_cast<double>(drawn->skips.size()));
        }
      }
      return result;
    };
  };
  all.of_component.assign(problem.components.size(), 0);
  RunBlocks<WeightedBlock>(0, BlocksOf(n), control.threads, control.stop, control.progress, make,
                           [&](const WeightedBlock& block) { Add(block, &all); });
  Estimate estimate = FromWeights(problem, scale, all);
  estimate.complete = all.n == n;
  estimate.method = "forced swap";
  return estimate;
}

Estimate ConditionedCounts(const Problem& problem, const SamplerOptions& given, bool exact,
                           uint64_t seed, int64_t n, const RunControl& control) {
  SamplerOptions options = given;
  options.wanted = {!exact, exact};
  const uint64_t places = WaitPlaces(problem);
  const uint32_t least = options.disorder_prob > 0 ? 2 : 3;
  const double tail = BinomialTail(places, options.sync_prob, least);
  const Looks looks(problem, control);
  const auto make = [&] {
    auto sampler = std::make_shared<RoundSampler>(problem, options);
    auto drawn = std::make_shared<Perturbations>();
    auto chosen = std::make_shared<std::vector<uint64_t>>();
    return [&, sampler, drawn, chosen](int64_t block) {
      RestBlock result;
      const int64_t end = std::min((block + 1) * kBlock, n);
      for (int64_t s = block * kBlock; s < end && !looks.StopsHere(s); ++s, ++result.n) {
        const auto sample = static_cast<uint64_t>(s);
        // Draws the number of waits by inversion, then as many distinct places.
        double left = CounterStream(seed, sample, 0, Purpose::kCount).NextPositive() * tail;
        uint64_t count = least;
        double term = std::exp(LogBinomial(places, options.sync_prob, count));
        while (left > term && count < places) {
          left -= term;
          term *= static_cast<double>(places - count) / static_cast<double>(count + 1) *
                  options.sync_prob / (1 - options.sync_prob);
          ++count;
          if (term <= 0) {
            break;
          }
        }
        CounterStream where(seed, sample, 0, Purpose::kPlaces);
        chosen->clear();
        while (chosen->size() < count) {
          const uint64_t place = where.Below(places);
          const auto at = std::lower_bound(chosen->begin(), chosen->end(), place);
          if (at == chosen->end() || *at != place) {
            chosen->insert(at, place);
          }
        }
        uint64_t ahead = 0;
        uint64_t part = 0;
        auto next = chosen->begin();
        bool found = false;
        for (size_t i = 0; i < problem.components.size() && !found; ++i) {
          const Component& c = problem.components[i];
          ComponentJudge& judge = *sampler->judges()[i];
          for (uint64_t copy = 0; copy < c.copies && !found; ++copy, ++part, ahead += c.total) {
            drawn->syncs.clear();
            uint32_t gpu = 0;
            for (; next != chosen->end() && *next - ahead < c.total; ++next) {
              while (*next - ahead >= c.offset[gpu + 1]) {
                ++gpu;
              }
              drawn->syncs.push_back(
                  {gpu, static_cast<uint32_t>(*next - ahead - c.offset[gpu]), 1});
            }
            if (drawn->syncs.empty()) {
              continue;
            }
            judge.source().DrawAround(seed, sample, part, drawn.get());
            found = exact ? judge.IsExact(drawn.get()) : judge.IsDefault(drawn.get());
          }
        }
        result.hits += found ? 1 : 0;
      }
      return result;
    };
  };
  RestBlock all;
  RunBlocks<RestBlock>(0, BlocksOf(n), control.threads, control.stop, control.progress, make,
                       [&](const RestBlock& block) {
                         all.n += block.n;
                         all.hits += block.hits;
                       });
  Estimate estimate;
  estimate.n = all.n;
  estimate.hits = all.hits;
  estimate.ratio =
      all.n == 0 ? 0 : tail * static_cast<double>(all.hits) / static_cast<double>(all.n);
  const Interval given_enough = WilsonInterval(all.hits, all.n);
  estimate.interval = {tail * given_enough.low, tail * given_enough.high};
  estimate.complete = all.n == n;
  estimate.method = "conditioned counts";
  return estimate;
}

}  // namespace gordian::simulator
