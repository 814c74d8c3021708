#include "analyzer/model/facts/round_gaps.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace gordian::model {
namespace {

constexpr size_t kMostGaps = 4096;  // a wait that began before them is long enough without them

}  // namespace

void RoundGaps::OnRound(uint64_t begin_ns, uint64_t longest_ns) {
  if (last_ns_ != 0 && begin_ns > last_ns_ + longest_ns) {
    const uint64_t before =
        gaps_.empty() ? 0 : gaps_.back().before_ns + gaps_.back().end_ns - gaps_.back().begin_ns;
    gaps_.push_back({last_ns_ + longest_ns, begin_ns, before});
    if (gaps_.size() > kMostGaps) gaps_.pop_front();
  }
  last_ns_ = std::max(last_ns_, begin_ns);
}

uint64_t RoundGaps::Missed(uint64_t until_ns) const {
  const auto after = std::partition_point(gaps_.begin(), gaps_.end(),
                                          [&](const Gap& gap) { return gap.begin_ns < until_ns; });
  // What was dropped counts for neither of two moments.
  if (after == gaps_.begin()) return gaps_.empty() ? 0 : gaps_.front().before_ns;
  const Gap& gap = *std::prev(after);
  return gap.before_ns + std::min(until_ns, gap.end_ns) - gap.begin_ns;
}

uint64_t RoundGaps::Between(uint64_t from_ns, uint64_t to_ns) const {
  if (from_ns >= to_ns) return 0;
  return to_ns - from_ns - (Missed(to_ns) - Missed(from_ns));
}

}  // namespace gordian::model
