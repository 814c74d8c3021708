// Shared (not process-private) futexes: words that other processes map too.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_FUTEX_H_
#define GORDIAN_EMULATOR_NCCL_COMM_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace gordian::emu::nccl {

// Sleeps while *word == seen. No timeout: a hung job must not wake up.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

// Adds 1 and wakes every sleeper of every process.
inline void FutexBump(std::atomic<uint32_t>* word) {
  // litmus: hosts.notify
  word->fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_FUTEX_H_
