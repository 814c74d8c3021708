// A schedule of fewer ranks: data-parallel replicas are folded away. Pure.
#ifndef GORDIAN_REPLAYER_FOLD_H_
#define GORDIAN_REPLAYER_FOLD_H_

#include <cstddef>
#include <string>

#include "common/status.h"
#include "replayer/schedule.h"

namespace gordian::replayer {

// Leaves the first `members` members in each communicator of that name: the job's own, or the
// schedule's, or either without the number at its end (tp: tp0, tp_1). The ranks that lose their
// place are gone, from all communicators; what others send to them or get from them is gone too.
// Counts of elements stay as they were. Errors: kInvalidArgument when no communicator has the name
// or that many members, with the names that there are.
StatusOr<Schedule> Fold(const Schedule& schedule, const std::string& name, size_t members);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_FOLD_H_
