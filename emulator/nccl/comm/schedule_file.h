// Parses the text of a schedule.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_FILE_H_
#define GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::emu::nccl {

// rank RANK call N | rank RANK thread THREAD call N | rank RANK comm COMM op N, all but RANK and
// COMM counted from 1. COMM: a number (from 0, in the order in which the rank made its
// communicators) or a name.
struct ScheduleStep {
  int rank = 0;
  uint64_t thread = 0;  // 0: any
  bool on_comm = false;
  int64_t comm = -1;  // -1: by name
  std::string comm_name;
  uint64_t number = 0;
  bool operator==(const ScheduleStep&) const = default;
};

// Returns false with `*error` "line N: ..." and no steps if a line is malformed.
bool ParseSchedule(const std::string& text, std::vector<ScheduleStep>* steps, std::string* error);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_SCHEDULE_FILE_H_
