// GORDIAN_EMU_SCHEDULE=FILE: forces the order in which the ranks of a job, and the threads of a
// rank, enter NCCL. docs/emulator.md describes the file.
//
// All processes of the job share the position (job_state.h): a thread may enter a step when all
// steps above it have been passed. A call in no step is free.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_H_
#define GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/process/job_state.h"
#include "emulator/nccl/comm/schedule_file.h"

namespace gordian::emu::nccl {

class Comm;

// The steps of what is submitted together: one call, or a group. Moves along with it.
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
  // A submission that fails early must not hold up the others.
  ~Turn() { Pass(); }

  void Add(const std::vector<uint32_t>& steps) {
    steps_.insert(steps_.end(), steps.begin(), steps.end());
  }
  void Join(Turn&& other) {
    Add(other.steps_);
    other.steps_.clear();
  }
  // Blocks until everything above the first of its steps has been passed, or the schedule is
  // released.
  void Await();
  // Passes the steps: the call is enqueued, refused, or about to wait for other ranks.
  void Pass();

 private:
  std::vector<uint32_t> steps_;
};

// Returns null if there is no usable schedule.
class Schedule {
 public:
  static Schedule* Get();

  // The steps that name the calling thread's call on `comm`. `operation`: counts as an operation of
  // its communicator. Call it once per call, in order.
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

#endif  // GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_H_
