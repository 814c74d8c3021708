// How far the analyzer's clock is from ours, and how wrong that may be.
//
// A question is sent at our t0, arrives at the analyzer's t1, is answered at its t2 and the answer
// read at our t3. Nothing is known of how the way was split between there and back, so the offset
// is taken as if it had been split evenly, and is wrong by at most half of the time on the way: the
// true offset lies in [t2 - t3, t1 - t0].
//
// Both clocks drift. A reading of the past is still true, but less exact with every second: its
// bound grows by kDriftPpm of its age. The best reading of a window is the one whose bound is
// smallest now.
//
// Pure: told of times, it reads no clock. Not thread-safe.
#ifndef GORDIAN_COLLECTOR_CLOCK_SYNC_H_
#define GORDIAN_COLLECTOR_CLOCK_SYNC_H_

#include <cstdint>
#include <deque>
#include <optional>

namespace gordian::collector {

class ClockSync {
 public:
  // Of two crystals against each other, as CLOCK_MONOTONIC runs with NTP's corrections.
  static constexpr uint64_t kDriftPpm = 50;
  static constexpr size_t kWindow = 64;  // readings that are kept

  struct Exchange {
    uint64_t sent_ns;      // t0, ours
    uint64_t received_ns;  // t1, the analyzer's
    uint64_t answered_ns;  // t2, the analyzer's
    uint64_t read_ns;      // t3, ours
  };
  struct Reading {
    int64_t offset_ns = 0;  // the analyzer's clock is ours plus this
    uint64_t bound_ns = 0;  // at the time that was asked about
    uint64_t at_ns = 0;     // when it was measured, ours
  };

  // False: an exchange that cannot be (it ends before it begins), which is left out.
  bool Add(const Exchange& exchange);

  // The best reading at `now_ns` (our clock; not before the last exchange). None: no exchange yet.
  std::optional<Reading> Best(uint64_t now_ns) const;

  // The analyzer is another one now, with another clock.
  void Clear() { readings_.clear(); }

  // Whether `fresh` is worth telling to somebody who was told `told`: much better, or no longer
  // what was told.
  static bool WorthTelling(const Reading& told, const Reading& fresh);

 private:
  static uint64_t Aged(const Reading& reading, uint64_t now_ns);

  std::deque<Reading> readings_;  // bound_ns: at at_ns
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_CLOCK_SYNC_H_
