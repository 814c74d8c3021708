// Sleeping and waking on a 32-bit word, in this process or across processes; the monotonic clock.
#ifndef GORDIAN_RUNTIME_CPU_FUTEX_H_
#define GORDIAN_RUNTIME_CPU_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace gordian::runtime {

inline constexpr int64_t kForever = INT64_MAX;

inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// A deadline `timeout_ns` from now, without overflow.
inline int64_t DeadlineIn(uint64_t timeout_ns) {
  const int64_t now = NowNs();
  return timeout_ns >= static_cast<uint64_t>(kForever - now)
             ? kForever
             : now + static_cast<int64_t>(timeout_ns);
}

// Sleeps while *word == expected, until woken, interrupted or the deadline. May return early:
// callers look again.
inline void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t deadline_ns) {
  timespec deadline;
  if (deadline_ns != kForever) {
    deadline.tv_sec = deadline_ns / 1'000'000'000;
    deadline.tv_nsec = deadline_ns % 1'000'000'000;
  }
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
          deadline_ns == kForever ? nullptr : &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void FutexWakeAll(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_FUTEX_H_
