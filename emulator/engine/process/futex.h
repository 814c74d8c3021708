// Sleeping and waking on a 32-bit word, in this process or across processes.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_FUTEX_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace gordian::emu {

inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// Sleeps while *word == expected, until woken, interrupted or `deadline_ns` (CLOCK_MONOTONIC;
// INT64_MAX: no timeout). May return early: callers check *word again.
inline void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t deadline_ns) {
  timespec deadline;
  if (deadline_ns != INT64_MAX) {
    deadline.tv_sec = deadline_ns / 1'000'000'000;
    deadline.tv_nsec = deadline_ns % 1'000'000'000;
  }
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
          deadline_ns == INT64_MAX ? nullptr : &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void FutexWakeAll(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_FUTEX_H_
