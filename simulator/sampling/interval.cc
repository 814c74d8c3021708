#include "simulator/sampling/interval.h"

#include <algorithm>
#include <cmath>

namespace gordian::simulator {

Interval WilsonInterval(int64_t hits, int64_t n, double z) {
  if (n <= 0) {
    return {0, 1};
  }
  const double count = static_cast<double>(n);
  const double ratio = static_cast<double>(hits) / count;
  const double z2 = z * z;
  const double middle = (ratio + z2 / (2 * count)) / (1 + z2 / count);
  const double half =
      z / (1 + z2 / count) * std::sqrt(ratio * (1 - ratio) / count + z2 / (4 * count * count));
  return {hits == 0 ? 0 : std::max(0.0, middle - half),
          hits == n ? 1 : std::min(1.0, middle + half)};
}

Interval NormalInterval(double mean, double variance_of_mean, double z) {
  const double half = z * std::sqrt(std::max(0.0, variance_of_mean));
  return {std::max(0.0, mean - half), mean + half};
}

double LogBinomial(uint64_t n, double p, uint64_t k) {
  const double nn = static_cast<double>(n);
  const double kk = static_cast<double>(k);
  return std::lgamma(nn + 1) - std::lgamma(kk + 1) - std::lgamma(nn - kk + 1) + kk * std::log(p) +
         (nn - kk) * std::log1p(-p);
}

double BinomialTail(uint64_t n, double p, uint32_t least) {
  if (least == 0) {
    return 1;
  }
  if (p <= 0 || least > n) {
    return 0;
  }
  if (p >= 1) {
    return 1;
  }
  if (static_cast<double>(n) * p > 1) {
    double below = 0;
    for (uint32_t k = 0; k < least; ++k) {
      below += std::exp(LogBinomial(n, p, k));
    }
    return std::max(0.0, 1 - below);
  }
  double sum = 0;
  for (uint64_t k = least; k <= n; ++k) {
    const double term = std::exp(LogBinomial(n, p, k));
    sum += term;
    if (term <= sum * 1e-17) {
      break;
    }
  }
  return sum;
}

double AnyOf(double p, double copies) { return p >= 1 ? 1 : -std::expm1(copies * std::log1p(-p)); }

}  // namespace gordian::simulator
