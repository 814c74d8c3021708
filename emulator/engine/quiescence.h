// Finds out when nothing in the job can move any more: GORDIAN_EMU_QUIESCENCE=FILE, and what
// releases a schedule that cannot be followed.
//
// A process is *asleep* when its worker sleeps with no timed kernel, copy or start pending and its
// doorbell unrung, when no thread that sleeps inside the emulator has been woken, and when every
// thread sleeps in a system call without a timeout. A job is *quiescent* when in two rounds, one
// after the other, each of its processes (those that have used a device and are alive) was asleep,
// no thread was switched to between the rounds, and nothing was counted in JobState::activity since
// before the first round. Then only something outside of the job can move it: a signal, a debugger,
// a process that has not come yet.
//
// The process that falls asleep last asks for the rounds, so nobody has to poll the others.
#ifndef GORDIAN_EMULATOR_ENGINE_QUIESCENCE_H_
#define GORDIAN_EMULATOR_ENGINE_QUIESCENCE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/engine/job.h"
#include "emulator/engine/process_threads.h"
#include "emulator/engine/scheduler.h"

namespace gordian::emu {

class Quiescence {
 public:
  Quiescence(Job& job, Scheduler& scheduler);
  // Starts the thread that watches. Lives as long as the process.
  void Start();
  // Something that the thread waits for may have happened. Any thread.
  void Poke();
  void NoteActivity() { job_.NoteActivity(); }
  // The process exits: it leaves no report.
  void Leave();

 private:
  enum class Sleep { kAsleep, kMoves, kThreadsMove };

  void Main();
  // Looks at this process; `kThreadsMove` when only threads outside of the emulator may move.
  Sleep Look(uint64_t* fingerprint);
  // Takes part in the round that was asked for last.
  void Answer();
  // Asks for a round and waits for all answers; false when somebody moves.
  bool AskRound(uint64_t activity, std::vector<uint64_t>* fingerprints);
  bool FindQuiescent();
  void ReleaseSchedule();
  void WriteReport();
  void RemoveReport();
  std::string ReportText();

  Job& job_;
  JobState& state_;
  Scheduler& scheduler_;
  std::string path_;         // of this process's report; empty: none is wanted
  std::string ignored_;      // names of threads that do not count
  uint32_t expected_ = 0;    // processes that have to be there
  std::mutex report_mutex_;  // the watching thread against Leave
  bool leaving_ = false;
  uint32_t reported_ = 0;  // the round that the report on disk is of; 0: there is none
  bool said_unreadable_ = false;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_QUIESCENCE_H_
