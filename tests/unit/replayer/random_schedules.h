// Random jobs: some hang, most ends well. The same number gives the same job.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_RANDOM_SCHEDULES_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_RANDOM_SCHEDULES_H_

#include <cstdint>

#include "replayer/record/schedule.h"

namespace gordian::replayer::testing {

// Two to four ranks that were given the same steps, with some mistakes: calls swapped, left out, on
// another stream, with a host wait in between. No two calls that meet differ in their arguments.
Schedule RandomSchedule(uint64_t number);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_RANDOM_SCHEDULES_H_
