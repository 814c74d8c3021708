// DeFT's Preserver: does delaying and merging updates keep the expected loss?
//
// The loss is a Gaussian walk s' = s - eta * D that rebounds at its least value S*; D ~ N(mu,
// sigma^2 / batch), mu = |gradient|^2, sigma^2 = gradient^T Sigma gradient. The expectation after
// one step is that of a folded normal; steps are chained by their expectations. k merged gradients,
// summed, move k times as far with sqrt(k) times the deviation.
//
// Source: DeFT section IV, where the mean is mu (the paper prints the step itself) and Phi is the
// standard normal distribution.
#ifndef GORDIAN_PLANNER_PROOF_PRESERVER_H_
#define GORDIAN_PLANNER_PROOF_PRESERVER_H_

#include <vector>

namespace gordian::planner {

enum class Merge { kSum, kMean };

struct LossWalk {
  double loss = 0;       // s
  double least = 0;      // S*
  double rate = 0;       // eta
  double drift = 0;      // mu
  double deviation = 0;  // sigma
  double batch = 1;
};

// The expected loss after one update of `merged` gradients.
double ExpectedLoss(const LossWalk& walk, int merged = 1, Merge merge = Merge::kSum);

// The expected loss after each of the updates in turn.
std::vector<double> ExpectedLosses(LossWalk walk, const std::vector<int>& merged,
                                   Merge merge = Merge::kSum);

struct Preservation {
  double plain = 0;    // expected loss after as many plain steps
  double delayed = 0;  // after the merged ones
  double ratio = 0;    // plain / delayed
  bool accepted = false;
};

// Accepts a ratio within 1 - epsilon .. 1 + epsilon.
bool RatioAccepted(double ratio, double epsilon);
Preservation Assess(const LossWalk& walk, const std::vector<int>& merged, double epsilon,
                    Merge merge = Merge::kSum);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_PRESERVER_H_
