// Reduces a schedule to fewer ranks by removing data-parallel replicas. Pure.
#ifndef GORDIAN_REPLAYER_REDUCE_FOLD_H_
#define GORDIAN_REPLAYER_REDUCE_FOLD_H_

#include <cstddef>
#include <string>

#include "common/status.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

// Keeps the first `members` members in each communicator of that name: the job's name, the
// schedule's, or either without the number at its end (tp: tp0, tp_1). Removes the other ranks from
// all communicators, with their sends and receives. Keeps counts of elements. Errors:
// kInvalidArgument, listing the names, if no communicator has the name or that many members.
StatusOr<Schedule> Fold(const Schedule& schedule, const std::string& name, size_t members);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_FOLD_H_
