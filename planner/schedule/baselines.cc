#include "planner/schedule/baselines.h"

#include <algorithm>

namespace gordian::planner {
namespace {

// Runs the forward pass, where bucket i begins no earlier than `received[i]`.
void RunForward(const std::vector<Bucket>& buckets, const std::vector<Micros>& received,
                Micros backward_end, Baseline* baseline) {
  Micros now = backward_end;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Micros begin = std::max(now, received[i]);
    now = begin + buckets[i].forward;
    baseline->forwards.push_back({static_cast<int>(i) + 1, begin, now});
  }
  baseline->step = now;
}

}  // namespace

Baseline Wfbp(const std::vector<Bucket>& buckets) {
  Baseline baseline;
  const std::vector<Micros> ready = ReadyTimes(buckets);
  Micros link = 0;
  for (size_t i = buckets.size(); i-- > 0;) {
    const Micros begin = std::max(link, ready[i]);
    link = begin + buckets[i].comm;
    baseline.sends.push_back({static_cast<int>(i) + 1, begin, link});
  }
  const Micros last = std::max(link, Sum(buckets).backward);
  RunForward(buckets, std::vector<Micros>(buckets.size(), last), last, &baseline);
  return baseline;
}

Baseline Priority(const std::vector<Bucket>& buckets, Micros chunk, Micros startup) {
  Baseline baseline;
  const size_t n = buckets.size();
  const std::vector<Micros> ready = ReadyTimes(buckets);
  std::vector<Micros> received(n, 0);
  std::vector<Micros> chunks(n), sent(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const Micros c = buckets[i].comm;
    chunks[i] = chunk > 0 ? std::max<Micros>(1, (c + chunk - 1) / chunk) : 1;
  }
  Micros now = 0;
  while (true) {
    size_t next = n;
    Micros earliest = -1;
    for (size_t i = 0; i < n && next == n; ++i) {
      if (sent[i] == chunks[i]) continue;
      if (ready[i] <= now) {
        next = i;
      } else if (earliest < 0 || ready[i] < earliest) {
        earliest = ready[i];
      }
    }
    if (next == n) {
      if (earliest < 0) break;
      now = earliest;
      continue;
    }
    const Micros length = PieceTime(buckets[next].comm, chunks[next], sent[next], startup);
    ++sent[next];
    baseline.sends.push_back({static_cast<int>(next) + 1, now, now + length});
    now += length;
    received[next] = now;
  }
  RunForward(buckets, received, Sum(buckets).backward, &baseline);
  return baseline;
}

Micros PriorityBound(const std::vector<Bucket>& buckets) {
  if (buckets.empty()) return 0;
  return Sum(buckets).comm + buckets.back().forward + buckets.back().backward;
}

}  // namespace gordian::planner
