// Two clocks, in nanoseconds: "mono" is CLOCK_MONOTONIC (durations, order on one node), "real" is
// CLOCK_REALTIME (times for people). Variables name theirs: mono_ns, real_ns.
#ifndef GORDIAN_COMMON_CLOCK_H_
#define GORDIAN_COMMON_CLOCK_H_

#include <time.h>

#include <cstdint>
#include <string>

namespace gordian {

inline constexpr uint64_t kNsPerUs = 1000;
inline constexpr uint64_t kNsPerMs = 1000 * kNsPerUs;
inline constexpr uint64_t kNsPerSecond = 1000 * kNsPerMs;

inline uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t MonoNs() { return ClockNs(CLOCK_MONOTONIC); }
inline uint64_t RealNs() { return ClockNs(CLOCK_REALTIME); }

// Both clocks at nearly one moment, to convert a node's mono times to wall-clock times.
struct ClockPair {
  uint64_t mono_ns = 0;
  uint64_t real_ns = 0;
};
inline ClockPair ReadClockPair() { return {.mono_ns = MonoNs(), .real_ns = RealNs()}; }

// "2025-11-21T03:04:05.123Z".
std::string FormatUtc(uint64_t real_ns);

}  // namespace gordian

#endif  // GORDIAN_COMMON_CLOCK_H_
