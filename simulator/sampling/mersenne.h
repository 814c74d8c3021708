// The random numbers of CPython's random module: MT19937 (Matsumoto and Nishimura 1998), seeded by
// its init_by_array, two words for a number of 53 bits. The same seed gives the same bits.
#ifndef GORDIAN_SIMULATOR_SAMPLING_MERSENNE_H_
#define GORDIAN_SIMULATOR_SAMPLING_MERSENNE_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace gordian::simulator {

// Not thread-safe.
class PythonRandom {
 public:
  // random.seed(number): key holds the number's 32-bit digits, lowest first.
  explicit PythonRandom(const std::vector<uint32_t>& key);
  explicit PythonRandom(uint32_t seed) : PythonRandom(std::vector<uint32_t>{seed}) {}
  // random.seed(seed), also beyond 32 bits.
  static PythonRandom OfSeed(uint64_t seed);

  // The number that random() returns, times 2^53.
  uint64_t Next53() {
    if (at_ == kEnd) {
      Refill();
    }
    return ready_[at_++];
  }
  double Next() { return static_cast<double>(Next53()) * 0x1p-53; }

  // Draws numbers while they are not below `threshold`, at most `most`. Returns how many.
  uint64_t PassOver(uint64_t threshold, uint64_t most);

  // The same for pairs: draws a pair while its first is not below `first` and its second not below
  // `second`. Returns how many pairs.
  uint64_t PassOverPairs(uint64_t first, uint64_t second, uint64_t most);

  // random() < p exactly when Next53() < Threshold(p).
  static uint64_t Threshold(double p) {
    return static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  }

 private:
  static constexpr int kWords = 624;
  static constexpr int kNumbers = kWords / 2;
  static constexpr int kEnd = kNumbers + 1;
  void Refill();

  std::array<uint32_t, kWords> state_;
  std::array<uint64_t, kEnd>
      ready_;  // from 1 on; 0 holds a number when the other of its pair comes next
  int at_ = kEnd;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_MERSENNE_H_
