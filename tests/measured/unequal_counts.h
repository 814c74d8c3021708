// The all-reduces of two ranks with different counts that were run on two H200s: the table `counts`
// of bench/results/emulator-hardware.json.
#ifndef GORDIAN_TESTS_MEASURED_UNEQUAL_COUNTS_H_
#define GORDIAN_TESTS_MEASURED_UNEQUAL_COUNTS_H_

#include <cstdint>
#include <ostream>
#include <vector>

namespace gordian::measured {

// Which of the two ranks end.
enum class Ends { kBoth, kSmaller, kNone, kLarger };

struct Pair {
  uint64_t smaller_bytes = 0;
  uint64_t larger_bytes = 0;
  Ends ends = Ends::kNone;

  bool operator==(const Pair&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair);

// All of them, by the smaller and the larger. Throws if the file is not as it must be.
const std::vector<Pair>& UnequalCounts();

// Those that the rule of the emulator and of the model does not follow, since H200s are not uniform
// there (docs/emulator.md).
const std::vector<Pair>& NotFollowed();

}  // namespace gordian::measured

#endif  // GORDIAN_TESTS_MEASURED_UNEQUAL_COUNTS_H_
