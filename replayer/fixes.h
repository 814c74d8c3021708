// Changes to a schedule that hangs after which it ends: what a person would try first, tried.
#ifndef GORDIAN_REPLAYER_FIXES_H_
#define GORDIAN_REPLAYER_FIXES_H_

#include <string>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

struct Fix {
  std::string name;  // fit for a file: "order"
  std::string what;  // one line
  Schedule schedule;
};

// Those of these that change something, and after which the model (model_run.h) finds no hang:
//   order     every rank makes the operations in one order, that of the rank that makes most of
//   them hoisted   waits of the host come after all operations of their thread grouped   operations
//   with nothing between them are one group of NCCL implicit  NCCL_LAUNCH_ORDER_IMPLICIT=1: NCCL
//   orders what one process launches on one device (2.26 and later)
// Each is one change alone; whoever applies it to the job has to see whether the job still means
// the same. Of a schedule with AddNotReached() done: without what was not reached nothing could
// end. None where threads have to be kept in order by gates, since their order is then not that of
// a program; and none for a rank that never calls.
std::vector<Fix> ProposeFixes(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_FIXES_H_
