// This process's place in its job (see job_state.h).
#ifndef GORDIAN_EMULATOR_ENGINE_JOB_H_
#define GORDIAN_EMULATOR_ENGINE_JOB_H_

#include <cstdint>
#include <memory>
#include <string>

#include "emulator/engine/job_state.h"

namespace gordian::emu {

class Job {
 public:
  // Null when neither variable is set, or (with a line on stderr) when there is no shared memory.
  // Jobs are told apart by GORDIAN_EMU_JOB and the two variables' values.
  static std::unique_ptr<Job> Join();

  JobState* state() { return state_; }
  JobProcess& self() { return state_->processes[self_]; }
  // The process will not move again: it exits.
  void Leave();

  // Whether the process behind an entry is still alive.
  static bool IsAlive(const JobProcess& process);
  // Makes the monitor of every process look.
  void WakeMonitors();
  void NoteActivity();

 private:
  Job() = default;

  JobState* state_ = nullptr;
  uint32_t self_ = 0;
  std::string path_;
};

// Clock ticks from boot to the start of the process; 0 when there is none.
uint64_t StartTimeOf(int pid);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_JOB_H_
