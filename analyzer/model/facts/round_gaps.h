// The gaps between rounds: time in which gordian meant to look and did not, because its machine
// stood still, as a virtual machine does that is paused, or had no processor for it. The job most
// likely stood still as well, so that such time is none in which a rank was waited for.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_ROUND_GAPS_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_ROUND_GAPS_H_

#include <cstdint>
#include <deque>

namespace gordian::model {

// Not thread-safe. Times in ns of one clock.
class RoundGaps {
 public:
  // A round begins, `longest_ns` at most after the one before, or there was a gap.
  void OnRound(uint64_t begin_ns, uint64_t longest_ns);
  // From one moment to a later one, without the gaps; 0: the other one is later. Logarithmic in the
  // gaps.
  uint64_t Between(uint64_t from_ns, uint64_t to_ns) const;

 private:
  struct Gap {
    uint64_t begin_ns = 0, end_ns = 0;
    uint64_t before_ns = 0;  // in all gaps before it
  };
  // In the gaps that ended, and the part of one that had passed, by that moment.
  uint64_t Missed(uint64_t until_ns) const;

  uint64_t last_ns_ = 0;
  std::deque<Gap> gaps_;  // the latest ones
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_ROUND_GAPS_H_
