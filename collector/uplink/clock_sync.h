// Estimates the offset of the analyzer's clock from ours, with a bound on the error.
//
// The collector sends a question at t0 (our clock); it arrives at t1 and is answered at t2 (the
// analyzer's clock); the collector reads the answer at t3. The split of the travel time is unknown,
// so the offset assumes an even split and errs by at most half of it: the true offset lies in [t2 -
// t3, t1 - t0] (as in NTP, RFC 5905).
//
// Both clocks drift, so the bound of an old reading grows by kDriftPpm of its age. The best reading
// of a window is the one whose bound is smallest now.
//
// Pure: the caller passes all times. Not thread-safe. All times in nanoseconds.
#ifndef GORDIAN_COLLECTOR_UPLINK_CLOCK_SYNC_H_
#define GORDIAN_COLLECTOR_UPLINK_CLOCK_SYNC_H_

#include <cstdint>
#include <deque>
#include <optional>

namespace gordian::collector {

class ClockSync {
 public:
  // Drift of two crystals against each other, as CLOCK_MONOTONIC runs with NTP's corrections.
  static constexpr uint64_t kDriftPpm = 50;
  static constexpr size_t kWindow = 64;  // readings kept

  struct Exchange {
    uint64_t sent_ns;      // t0, ours
    uint64_t received_ns;  // t1, the analyzer's
    uint64_t answered_ns;  // t2, the analyzer's
    uint64_t read_ns;      // t3, ours
  };
  struct Reading {
    int64_t offset_ns = 0;  // the analyzer's clock is ours plus this
    uint64_t bound_ns = 0;  // as of the time asked about
    uint64_t at_ns = 0;     // when it was measured, ours
  };

  // Returns false and drops an impossible exchange (one that ends before it begins).
  bool Add(const Exchange& exchange);

  // The best reading at `now_ns` (our clock; not before the last exchange); nullopt before the
  // first.
  std::optional<Reading> Best(uint64_t now_ns) const;

  // Forgets all readings: another analyzer has another clock.
  void Clear() { readings_.clear(); }

  // True if `fresh` is much better than the reading `sent` last, or contradicts it.
  static bool WorthTelling(const Reading& sent, const Reading& fresh);

 private:
  static uint64_t Aged(const Reading& reading, uint64_t now_ns);

  std::deque<Reading> readings_;  // bound_ns: at at_ns
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_CLOCK_SYNC_H_
