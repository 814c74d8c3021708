// Random numbers by counting: the n-th of a stream is a hash of both, and a stream is a hash of what it
// is for. So a round's numbers depend on the seed and the round's number alone, whoever draws them, in
// whatever order. The hash is SplitMix64's (Steele, Lea, Flood 2014) on the counter.
#ifndef GORDIAN_SIMULATOR_COUNTER_RANDOM_H_
#define GORDIAN_SIMULATOR_COUNTER_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace gordian::simulator {

inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// What a stream is for; their numbers never meet.
enum class Purpose : uint64_t { kSync = 1, kSkip = 2, kSite = 3, kCount = 4, kPlaces = 5 };

class CounterStream {
 public:
  CounterStream(uint64_t seed, uint64_t round, uint64_t part, Purpose purpose)
      : at_(MixBits(MixBits(MixBits(seed + 0x632be59bd9b4e019u) + round) + 4 * part * kStep +
                    static_cast<uint64_t>(purpose) * 0xd1342543de82ef95u)) {}

  uint64_t Next() { return MixBits(at_ += kStep); }

  // From (0, 1]: never 0, so that its logarithm exists.
  double NextPositive() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }

  // From 0 to below - 1, each equally likely but for 2^-64 of them.
  uint64_t Below(uint64_t below) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * below) >> 64);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t at_;
};

// How many failures come before the next success of coins with success probability p.
class Gaps {
 public:
  explicit Gaps(double p) : scale_(p > 0 && p < 1 ? 1 / std::log1p(-p) : 0), never_(p <= 0) {}

  // 2^62: none ever comes.
  uint64_t Next(CounterStream* stream) const {
    if (never_) {
      return kNever;
    }
    const double gap = std::log(stream->NextPositive()) * scale_;
    return gap < 0x1p62 ? static_cast<uint64_t>(gap) : kNever;
  }

  static constexpr uint64_t kNever = uint64_t{1} << 62;

 private:
  double scale_;  // 0 with p = 1: no failure ever comes
  bool never_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_COUNTER_RANDOM_H_
