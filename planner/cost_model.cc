#include "planner/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "analyzer/model/hash.h"

namespace gordian::planner {
namespace {

double Share(uint32_t n) { return static_cast<double>(n - 1) / n; }

double Kappa(double kappa, InterPlan inter) { return inter == InterPlan::kRing ? 1 : kappa; }

PublishedFit Published(double alpha, double inter_alpha, double intra_alpha, double beta,
                       uint32_t local) {
  PublishedFit fit;
  fit.flat = {.alpha = alpha, .beta = 1};
  fit.hierarchical = {
      .alpha_inter = inter_alpha, .beta_inter = beta * local, .alpha_intra = intra_alpha};
  fit.local = local;
  return fit;
}

// Rounds to three significant digits.
double Rounded(double value) {
  if (!(value > 0)) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

InterPlan Recursive(uint32_t n) {
  return runtime::IsPowerOfTwo(n) ? InterPlan::kDoubling : InterPlan::kBruck;
}

}  // namespace

uint32_t Latencies(InterPlan inter, uint32_t n) {
  return inter == InterPlan::kRing ? n - 1 : runtime::CeilLog2(n);
}

double FlatTime(const FlatCost& cost, InterPlan inter, uint32_t p, double m, bool reduce_scatter) {
  const double moved = m * Share(p);
  return cost.launch + cost.alpha * Latencies(inter, p) +
         Kappa(cost.kappa, inter) * cost.beta * moved +
         (reduce_scatter ? cost.reduction * moved : 0);
}

double HierarchicalTime(const HierarchicalCost& cost, InterPlan inter, uint32_t nodes,
                        uint32_t local, double m) {
  return cost.launch + cost.alpha_inter * Latencies(inter, nodes) +
         Kappa(cost.kappa, inter) * cost.beta_inter * (m / local) * Share(nodes) +
         cost.alpha_intra * (local - 1) + cost.beta_intra * m * Share(local) + cost.shuffle * m;
}

double RingCrossing(const FlatCost& cost, uint32_t p) {
  const double steps = static_cast<double>(p - 1) - runtime::CeilLog2(p);
  const double price = (cost.kappa - 1) * cost.beta * (p - 1);
  if (price <= 0) return std::numeric_limits<double>::infinity();
  return cost.alpha * steps * p / price;
}

double HierarchyCrossing(const FlatCost& flat, const HierarchicalCost& cost, InterPlan inter,
                         uint32_t nodes, uint32_t local) {
  const uint32_t p = nodes * local;
  const double flat_fixed = FlatTime(flat, InterPlan::kRing, p, 0);
  const double fixed = HierarchicalTime(cost, inter, nodes, local, 0);
  const double flat_slope = FlatTime(flat, InterPlan::kRing, p, 1) - flat_fixed;
  const double slope = HierarchicalTime(cost, inter, nodes, local, 1) - fixed;
  if (slope == flat_slope) return -1;
  return (flat_fixed - fixed) / (slope - flat_slope);
}

PublishedFit FrontierAllGather() { return Published(13.18, 85.0, 8.50, 3.209, 8); }
PublishedFit FrontierReduceScatter() { return Published(10.83, 68.4, 6.84, 2.907, 8); }
PublishedFit PerlmutterAllGather() { return Published(0.708, 27.4, 2.74, 1.574, 4); }

CostFit FitCost(const std::vector<CostSample>& samples, double launch) {
  CostFit fit;
  fit.cost.launch = launch;
  // Minimises the sum of ((alpha x + beta y - t) / t)^2 over the rings.
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  double above = 0, below = 0;  // kappa
  const auto usable = [&](const CostSample& s) {
    return s.bytes >= kSmallestFitted && s.p >= 2 && s.us > launch;
  };
  for (const CostSample& s : samples) {
    if (!usable(s) || s.plan != InterPlan::kRing) continue;
    const double t = s.us - launch;
    const double x = Latencies(s.plan, s.p) / t;
    const double y = s.bytes * Share(s.p) / t;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
    ++fit.used;
  }
  const double determinant = xx * yy - xy * xy;
  if (fit.used < 2 || determinant <= 1e-9 * xx * yy) {
    fit.missing = "alpha and beta: rings of two sizes, one of them small";
    return fit;
  }
  fit.cost.alpha = std::max(0.0, (x1 * yy - y1 * xy) / determinant);
  fit.cost.beta = std::max(0.0, (y1 * xx - x1 * xy) / determinant);
  for (const CostSample& s : samples) {
    if (!usable(s) || s.plan == InterPlan::kRing) continue;
    const double t = s.us - launch;
    const double y = fit.cost.beta * s.bytes * Share(s.p) / t;
    above += y * (1 - fit.cost.alpha * Latencies(s.plan, s.p) / t);
    below += y * y;
    ++fit.used;
  }
  if (below > 0) {
    fit.cost.kappa = above / below;
  } else {
    fit.missing = "kappa: no sample of a plan other than the ring";
  }
  for (const CostSample& s : samples) {
    if (!usable(s)) continue;
    fit.worst_error =
        std::max(fit.worst_error, std::abs(FlatTime(fit.cost, s.plan, s.p, s.bytes) / s.us - 1));
  }
  return fit;
}

double TableTime(const std::vector<CostSample>& samples, InterPlan plan, uint32_t p, double bytes) {
  std::map<double, std::pair<double, int>> by_size;  // mean time
  for (const CostSample& s : samples) {
    if (s.plan != plan || s.p != p || s.bytes <= 0) continue;
    auto& [sum, count] = by_size[s.bytes];
    sum += s.us;
    ++count;
  }
  const auto mean = [](const std::pair<double, int>& at) { return at.first / at.second; };
  const auto above = by_size.lower_bound(bytes);
  if (above == by_size.end()) return -1;
  if (above->first == bytes) return mean(above->second);
  if (above == by_size.begin()) return -1;
  const auto below = std::prev(above);
  const double part = std::log(bytes / below->first) / std::log(above->first / below->first);
  return mean(below->second) + part * (mean(above->second) - mean(below->second));
}

MachineCost Agree(const std::vector<MachineCost>& by_rank) {
  MachineCost agreed;
  if (by_rank.empty()) return agreed;
  const auto worst = [&](auto get) {
    double most = 0;
    for (const MachineCost& cost : by_rank) most = std::max(most, get(cost));
    return Rounded(most);
  };
#define GORDIAN_WORST(field) agreed.field = worst([](const MachineCost& c) { return c.field; })
  GORDIAN_WORST(flat.launch);
  GORDIAN_WORST(flat.alpha);
  GORDIAN_WORST(flat.beta);
  GORDIAN_WORST(flat.kappa);
  GORDIAN_WORST(flat.reduction);
  GORDIAN_WORST(hierarchical.launch);
  GORDIAN_WORST(hierarchical.alpha_inter);
  GORDIAN_WORST(hierarchical.beta_inter);
  GORDIAN_WORST(hierarchical.kappa);
  GORDIAN_WORST(hierarchical.alpha_intra);
  GORDIAN_WORST(hierarchical.beta_intra);
  GORDIAN_WORST(hierarchical.shuffle);
#undef GORDIAN_WORST
  agreed.local = by_rank.front().local;
  for (const MachineCost& cost : by_rank) agreed.local = std::min(agreed.local, cost.local);
  return agreed;
}

const char* Name(InterPlan inter) {
  switch (inter) {
    case InterPlan::kRing:
      return "ring";
    case InterPlan::kDoubling:
      return "doubling";
    case InterPlan::kBruck:
      return "bruck";
  }
  return "?";
}

std::string Name(const Candidate& candidate) {
  return (candidate.hierarchical ? std::string("hierarchical, ") : std::string()) +
         Name(candidate.inter);
}

std::vector<Candidate> Candidates(const MachineCost& cost, uint32_t p, double m,
                                  bool reduce_scatter) {
  std::vector<Candidate> all;
  for (const InterPlan inter : {InterPlan::kRing, Recursive(p)}) {
    all.push_back({false, inter, FlatTime(cost.flat, inter, p, m, reduce_scatter)});
  }
  if (cost.local > 1 && p % cost.local == 0 && p / cost.local > 1) {
    const uint32_t nodes = p / cost.local;
    for (const InterPlan inter : {InterPlan::kRing, Recursive(nodes)}) {
      double time = HierarchicalTime(cost.hierarchical, inter, nodes, cost.local, m);
      if (reduce_scatter) time += cost.flat.reduction * m * Share(p);
      all.push_back({true, inter, time});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  return all;
}

std::vector<ChoiceRow> ChoiceTable(const MachineCost& cost, uint32_t p,
                                   const std::vector<double>& sizes, bool reduce_scatter,
                                   double hysteresis) {
  std::vector<ChoiceRow> table;
  for (const double m : sizes) {
    const std::vector<Candidate> candidates = Candidates(cost, p, m, reduce_scatter);
    Candidate chosen = candidates.front();
    if (!table.empty()) {
      const Candidate& before = table.back().chosen;
      for (const Candidate& candidate : candidates) {
        if (candidate.hierarchical == before.hierarchical && candidate.inter == before.inter &&
            candidate.time <= (1 + hysteresis) * chosen.time) {
          chosen = candidate;
          break;
        }
      }
    }
    table.push_back({m, chosen});
  }
  return table;
}

uint64_t HashOf(const std::vector<ChoiceRow>& table) {
  model::Hash hash;
  for (const ChoiceRow& row : table) {
    hash.Add(static_cast<uint64_t>(std::llround(row.m)));
    hash.Add(static_cast<uint64_t>(row.chosen.hierarchical));
    hash.Add(static_cast<uint64_t>(row.chosen.inter));
  }
  return hash.value();
}

}  // namespace gordian::planner
