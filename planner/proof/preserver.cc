#include "planner/proof/preserver.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace gordian::planner {
namespace {

double Phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

double ExpectedLoss(const LossWalk& walk, int merged, Merge merge) {
  const double k = merged;
  const double steps = merge == Merge::kSum ? k : 1;
  const double m = walk.loss - walk.least - steps * walk.rate * walk.drift;
  const double t = walk.rate * walk.deviation *
                   std::sqrt(merge == Merge::kSum ? k / walk.batch : 1 / (k * walk.batch));
  if (t <= 0) return std::abs(m) + walk.least;  // no noise: only the rebound
  const double a = m / t;
  return m * (Phi(a) - Phi(-a)) + t * std::sqrt(2 / std::numbers::pi) * std::exp(-a * a / 2) +
         walk.least;
}

std::vector<double> ExpectedLosses(LossWalk walk, const std::vector<int>& merged, Merge merge) {
  std::vector<double> losses;
  for (const int k : merged) {
    walk.loss = ExpectedLoss(walk, k, merge);
    losses.push_back(walk.loss);
  }
  return losses;
}

bool RatioAccepted(double ratio, double epsilon) {
  return ratio >= 1 - epsilon && ratio <= 1 + epsilon;
}

Preservation Assess(const LossWalk& walk, const std::vector<int>& merged, double epsilon,
                    Merge merge) {
  const int steps = std::accumulate(merged.begin(), merged.end(), 0);
  Preservation result;
  result.plain = result.delayed = walk.loss;
  if (steps > 0) {
    result.plain = ExpectedLosses(walk, std::vector<int>(steps, 1), merge).back();
    result.delayed = ExpectedLosses(walk, merged, merge).back();
  }
  result.ratio = result.plain / result.delayed;
  result.accepted = RatioAccepted(result.ratio, epsilon);
  return result;
}

}  // namespace gordian::planner
