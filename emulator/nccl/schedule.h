// GORDIAN_EMU_SCHEDULE=FILE: forces the order in which the ranks of a job, and the threads of one
// rank, come to NCCL. docs/emulator.md describes the file.
//
// The position is shared by all processes of the job (job_state.h): a step may be entered when all
// steps above it have been passed. A call that is in no step is free.
#ifndef GORDIAN_EMULATOR_NCCL_SCHEDULE_H_
#define GORDIAN_EMULATOR_NCCL_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/job_state.h"
#include "emulator/nccl/schedule_file.h"

namespace gordian::emu::nccl {

class Comm;

// The steps of what is submitted together: of one call, or of a group. Moves along with it.
class Turn {
 public:
  Turn() = default;
  Turn(Turn&& other) noexcept : steps_(std::move(other.steps_)) { other.steps_.clear(); }
  Turn& operator=(Turn&& other) noexcept {
    Pass();
    steps_ = std::move(other.steps_);
    other.steps_.clear();
    return *this;
  }
  // What never got as far must not hold the others up.
  ~Turn() { Pass(); }

  void Add(const std::vector<uint32_t>& steps) {
    steps_.insert(steps_.end(), steps.begin(), steps.end());
  }
  void Join(Turn&& other) {
    Add(other.steps_);
    other.steps_.clear();
  }
  // Blocks until everything above the first of its steps has been passed, or nothing is forced
  // any more.
  void Await();
  // Done: enqueued, refused, or about to wait for other ranks.
  void Pass();

 private:
  std::vector<uint32_t> steps_;
};

// Null when there is no schedule, or none that can be used.
class Schedule {
 public:
  static Schedule* Get();

  // The steps that the calling thread's call on `comm` is named in. `operation`: it is one of the
  // operations that are counted for each communicator. Once a call, in the order of the calls.
  std::vector<uint32_t> StepsOf(const Comm& comm, bool operation);

  void Await(uint32_t step);
  void Pass(const std::vector<uint32_t>& steps);

 private:
  Schedule(JobState* job, std::vector<ScheduleStep> steps) : job_(*job), steps_(std::move(steps)) {}

  JobState& job_;
  const std::vector<ScheduleStep> steps_;
  std::mutex mutex_;
  std::map<int, uint64_t> calls_;                                             // by rank
  std::map<int, std::vector<std::pair<std::thread::id, uint64_t>>> threads_;  // by rank
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_SCHEDULE_H_
