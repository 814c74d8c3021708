// Random numbers by counting: the n-th number of a stream is a hash of both, and a stream is a hash
// of its purpose. So a round's numbers depend only on the seed and the round's number, not on
// threads or order. The hash is SplitMix64 (Steele, Lea, Flood 2014) on the counter.
#ifndef GORDIAN_SIMULATOR_SAMPLING_COUNTER_RANDOM_H_
#define GORDIAN_SIMULATOR_SAMPLING_COUNTER_RANDOM_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace gordian::simulator {

inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The purpose of a stream; streams of different purposes are independent.
enum class Purpose : uint64_t { kSync = 1, kSkip = 2, kSite = 3, kCount = 4, kPlaces = 5 };

class CounterStream {
 public:
  CounterStream(uint64_t seed, uint64_t round, uint64_t part, Purpose purpose)
      : at_(MixBits(MixBits(MixBits(seed + 0x632be59bd9b4e019u) + round) + 4 * part * kStep +
                    static_cast<uint64_t>(purpose) * 0xd1342543de82ef95u)) {}

  uint64_t Next() { return MixBits(at_ += kStep); }

  // From (0, 1]: never 0, so that its logarithm exists.
  double NextPositive() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }

  // From 0 to below - 1, uniform to within 2^-64.
  uint64_t Below(uint64_t below) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * below) >> 64);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t at_;
};

// Approximates logarithms to 1e-12 for the numbers of a stream: enough to round a gap down, unless
// it is next to a whole number.
class QuickLog {
 public:
  static const QuickLog& Table();

  // Of an integer between 1 and 2^53, less that of 2^53.
  double operator()(uint64_t integer) const {
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(integer));
    const Entry& entry = entries_[bits >> (52 - kBits) & (kEntries - 1)];
    const auto fraction =
        std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
    const double r = fraction * entry.inverse - 1;
    const double series = r - r * r * (0.5 - r * (1.0 / 3 - r * 0.25));
    return static_cast<double>(static_cast<int64_t>(bits >> 52) - (1023 + 53)) * kLn2 + entry.log +
           series;
  }
  static constexpr double kError = 1e-12;

 private:
  static constexpr int kBits = 7;
  static constexpr int kEntries = 1 << kBits;
  static constexpr double kLn2 = 0.693147180559945309417;
  struct Entry {
    double inverse;  // of the middle of 1/kEntries
    double log;      // of that middle
  };
  QuickLog();
  Entry entries_[kEntries];
};

// Draws how many failures precede the next success of coins of probability p: the logarithm of a
// number from (0, 1], times 1 / ln(1 - p), rounded down.
class Gaps {
 public:
  explicit Gaps(double p)
      : scale_(p > 0 && p < 1 ? 1 / std::log1p(-p) : 0),
        unsure_(-scale_ * QuickLog::kError),
        never_(p <= 0),
        log_(QuickLog::Table()) {}

  // 2^62 means that no success comes.
  uint64_t Next(CounterStream* stream) const {
    if (never_) {
      return kNever;
    }
    const uint64_t number = (stream->Next() >> 11) + 1;
    const double quick = log_(number) * scale_;
    // Above 2^30 this product's own rounding would matter.
    if (quick < 0x1p30) [[likely]] {
      const auto whole = static_cast<int64_t>(quick);
      const double rest = quick - static_cast<double>(whole);
      const double margin = unsure_ + 1e-6;
      if (rest > margin && rest < 1 - margin) [[likely]] {
        return static_cast<uint64_t>(whole);
      }
    }
    const double gap = std::log(static_cast<double>(number) * 0x1p-53) * scale_;
    return gap < 0x1p62 ? static_cast<uint64_t>(gap) : kNever;
  }

  static constexpr uint64_t kNever = uint64_t{1} << 62;

 private:
  double scale_;   // 0 if p = 1: every coin succeeds
  double unsure_;  // how far a gap by QuickLog may be off
  bool never_;
  const QuickLog& log_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_COUNTER_RANDOM_H_
