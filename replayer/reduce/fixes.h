// Proposes changes after which a hanging schedule ends: those that a person would try first.
#ifndef GORDIAN_REPLAYER_REDUCE_FIXES_H_
#define GORDIAN_REPLAYER_REDUCE_FIXES_H_

#include <string>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct Fix {
  std::string name;  // fit for a file: "order"
  std::string what;  // one line
  Schedule schedule;
};

// Returns those of the following that change the schedule, and with which the model (model_run.h)
// finds no hang:
//   order     every rank calls the operations in the order of the rank that calls most of them
//   hoisted   host waits come after all operations of their thread
//   grouped   operations with nothing between them are one NCCL group
//   implicit  NCCL_LAUNCH_ORDER_IMPLICIT=1: NCCL orders what one process launches on one device
//             (2.26 and later)
// Each is a single change; a person must check that the job still means the same with it.
// `schedule` must have had AddNotReached(), or it could not end. Proposes nothing if gates order
// threads, since their order is then not the program's, nor for a rank that never calls.
std::vector<Fix> ProposeFixes(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_FIXES_H_
