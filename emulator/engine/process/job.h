// Joins this process to its job's shared state (job_state.h), and takes it out. Threads: one calls
// Join; any thread the rest.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_H_

#include <cstdint>
#include <memory>
#include <string>

#include "emulator/engine/process/job_state.h"

namespace gordian::emu {

class Job {
 public:
  // Returns null if neither variable is set, or (with a line on stderr) without shared memory.
  // GORDIAN_EMU_JOB and the two variables' values identify a job.
  static std::unique_ptr<Job> Join();

  JobState* state() { return state_; }
  JobProcess& self() { return state_->processes[self_]; }
  // Call when the process exits and so never moves again.
  void Leave();

  // True if the process of an entry still lives.
  static bool IsAlive(const JobProcess& process);
  // Wakes the monitor of every process.
  void WakeMonitors();
  void NoteActivity();

 private:
  Job() = default;

  JobState* state_ = nullptr;
  uint32_t self_ = 0;
  std::string path_;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_JOB_H_
