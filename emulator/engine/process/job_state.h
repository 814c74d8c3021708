// The state that the processes of one emulated job share when GORDIAN_EMU_SCHEDULE or
// GORDIAN_EMU_QUIESCENCE is set: a file in /dev/shm that every process maps when it first uses a
// device. Threads: atomics only. It has no lock, since a process may die at any instruction.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_STATE_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_STATE_H_

#include <atomic>
#include <cstdint>

namespace gordian::emu {

inline constexpr uint64_t kJobMagic = 0x31626f6a756d6567;
inline constexpr uint32_t kJobVersion = 1;
inline constexpr uint32_t kMaxJobProcesses = 1024;
inline constexpr uint32_t kMaxScheduleSteps = 1u << 16;

struct alignas(64) JobProcess {
  enum : uint32_t { kFree = 0, kJoining = 1, kHere = 2, kLeft = 3 };
  std::atomic<uint32_t> state;
  int32_t pid;
  uint64_t start_time;                // distinguishes reused pids
  std::atomic<uint32_t> event;        // futex word of its monitor
  std::atomic<uint32_t> answered;     // the last round that its monitor answered
  std::atomic<uint32_t> asleep;       // 1: in that round nothing in the process could move
  std::atomic<uint32_t> forced;       // host threads that wait only for their turn in the schedule
  std::atomic<uint64_t> fingerprint;  // of its threads' context switches in that round
};

struct JobState {
  uint64_t magic;
  uint32_t version;
  std::atomic<uint32_t> processes_used;  // entries of `processes` that were ever taken
  // Counts changes that can make another process move: doorbells, notifications, waits, submitted
  // work. A process increments it after the change, so a reader that finds the same number twice
  // has missed no change in between.
  std::atomic<uint64_t> activity;
  std::atomic<uint32_t> round;      // the last round requested
  std::atomic<uint32_t> quiescent;  // the round that found the job unable to move; 0: it moves

  // GORDIAN_EMU_SCHEDULE. Steps below `cursor` have been passed.
  std::atomic<uint64_t> schedule_hash;   // of the file that the first process read
  std::atomic<uint32_t> schedule_event;  // futex word of threads that wait for their turn
  std::atomic<uint32_t> cursor;
  std::atomic<uint32_t> released;  // 1: no thread waits for its turn any more
  std::atomic<uint8_t> passed[kMaxScheduleSteps];

  JobProcess processes[kMaxJobProcesses];
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_STATE_H_
