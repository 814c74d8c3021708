// Small jobs that hang, each for one reason, beside the same job without that reason; and what they
// can be buried in.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_HANG_SHAPES_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_HANG_SHAPES_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "replayer/record/schedule.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer::testing {

// Ranks that take part in a shape, and communicators of them alone.
struct Stage {
  ScheduleBuilder& job;
  int a, b, c;             // ranks
  int dp, tp;              // of a and b, used before
  int ab, bc, ca;          // of two ranks each, used before
  int cold, colder;        // of a and b, never used
  int all;                 // of a, b and c, used before
  int unmade, unmade_too;  // of a and b, not made yet
  bool twin;               // without what makes it hang
};

struct HangShape {
  std::string name;
  void (*write)(const Stage&);
  std::string check;
  // Of the smallest: nothing can be left out of these by hand either.
  size_t ranks, operations, calls;
};
const std::vector<HangShape>& HangShapes();
inline void PrintTo(const HangShape& shape, std::ostream* out) {
  *out << shape.name;
}  // for GoogleTest

// `ranks` and `steps` of 0 give the shape alone. All ranks do the steps, with innocent
// communicators, streams, events and groups; those that are not in the shape then wait for the
// others.
Schedule Bury(const HangShape& shape, bool twin, int ranks, int steps);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_HANG_SHAPES_H_
