// Schedules written down by hand, one for each thing that a writer must be able to say.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_HAND_MADE_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_HAND_MADE_H_

#include <string>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer::testing {

struct Sample {
  std::string name;
  Schedule schedule;
};
// Order inversion; two threads of a rank; events; a graph; transfers in a group, and a rank that
// has left; a rank that does not come; a communicator that is split by some.
std::vector<Sample> Samples();
// What does not hang: an all-reduce, a ring of transfers and a graph.
Schedule Steps();
const Schedule& SampleOf(const std::vector<Sample>& samples, const std::string& name);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_HAND_MADE_H_
