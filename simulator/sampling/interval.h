// 95 % intervals for counts and means, and the number of samples that a given width needs. Wilson:
// E. B. Wilson, JASA 22 (1927).
#ifndef GORDIAN_SIMULATOR_SAMPLING_INTERVAL_H_
#define GORDIAN_SIMULATOR_SAMPLING_INTERVAL_H_

#include <cstdint>

namespace gordian::simulator {

inline constexpr double kZ95 = 1.959963984540054;   // two-sided 95 %
inline constexpr double kZ999 = 3.290526731491926;  // two-sided 99.9 %

struct Interval {
  double low = 0;
  double high = 1;
};

// For the probability behind `hits` of n trials. n = 0: [0, 1]. Without hits the upper end is z^2 /
// (n + z^2), for 95 % 3.84 / (n + 3.84).
Interval WilsonInterval(int64_t hits, int64_t n, double z = kZ95);

// For a mean, from its estimate and variance; not below 0.
Interval NormalInterval(double mean, double variance_of_mean, double z = kZ95);

// P(at least `least` hits in n trials of probability p), accurate for tiny values.
double BinomialTail(uint64_t n, double p, uint32_t least);

// ln C(n, k) p^k (1-p)^(n-k).
double LogBinomial(uint64_t n, double p, uint64_t k);

// 1 - (1 - p)^copies, accurate for tiny p.
double AnyOf(double p, double copies);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_INTERVAL_H_
