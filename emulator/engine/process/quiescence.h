// Finds out when no thread or device of the job can move any more: for GORDIAN_EMU_QUIESCENCE=FILE,
// and to release a schedule that the job cannot follow.
//
// A process is *asleep* when its worker sleeps with no timed kernel, copy or start pending and its
// doorbell unrung, no thread asleep inside the emulator has been woken, and every thread sleeps in
// a system call without a timeout. A job is *quiescent* when in two successive rounds each of its
// processes (those that have used a device and are alive) was asleep, no thread ran between the
// rounds, and JobState::activity has not changed since before the first round. Then only something
// outside of the job can move it: a signal, a debugger, a process yet to come.
//
// The process that falls asleep last asks for the rounds, so no process polls the others.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_QUIESCENCE_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_QUIESCENCE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/process/job.h"
#include "emulator/engine/process/process_threads.h"
#include "emulator/engine/process/report_folder.h"

namespace gordian::emu {

class Quiescence {
 public:
  Quiescence(Job& job, Scheduler& scheduler);
  // Starts the monitor thread. Lives as long as the process.
  void Start();
  // Wakes the monitor: something may have changed. Any thread.
  void Poke();
  void NoteActivity() { job_.NoteActivity(); }
  // Call when the process exits, so that it leaves no report.
  void Leave();

 private:
  enum class Sleep { kAsleep, kMoves, kThreadsMove };

  void Main();
  // Looks at this process; `kThreadsMove` if only threads outside of the emulator may move.
  Sleep Look(uint64_t* fingerprint);
  // Answers the latest round.
  void Answer();
  // Asks for a round and waits for all answers; returns false if some process moves.
  bool AskRound(uint64_t activity, std::vector<uint64_t>* fingerprints);
  bool FindQuiescent();
  void ReleaseSchedule();
  void WriteReport();
  void RemoveReport();
  std::string ReportText();

  Job& job_;
  JobState& state_;
  Scheduler& scheduler_;
  std::string path_;  // of this process's report; empty: none
  std::optional<ReportFolder> folder_;
  std::string ignored_;      // names of threads to ignore
  uint32_t expected_ = 0;    // least number of processes
  std::mutex report_mutex_;  // between the monitor and Leave
  bool leaving_ = false;
  uint32_t reported_ = 0;  // the round of the report on disk; 0: there is none
  bool said_unreadable_ = false;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_QUIESCENCE_H_
