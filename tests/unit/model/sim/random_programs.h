// Random tiny programs for a simulated job: those of one correct job, then mistakes, waits, events
// and groups. A number gives the same one always.
#ifndef GORDIAN_TESTS_UNIT_MODEL_SIM_RANDOM_PROGRAMS_H_
#define GORDIAN_TESTS_UNIT_MODEL_SIM_RANDOM_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {

struct Case {
  std::vector<SimComm> comms;
  std::vector<Program> programs;
  std::vector<std::pair<int, Program>> helpers;  // by process
  bool cold = false;
  bool launch_order = false;
  bool memory = false;  // streams wait for values in memory
};

std::string Print(const Case& c);

// In some a communicator grows from one of a part of its members, made before it.
Case MakeCase(uint64_t number);

// With helper threads, and sleeps that end by time, by another process or by a thread: late callers,
// answered reads, loops with deadlines, flags that host functions set, children that go on.
Case WithOutside(uint64_t number);

// Signals and waits for them, of a pair on one stream at each end or on several.
struct SignalCase {
  Case job;
  bool several_streams = false;
};

SignalCase WithSignals(uint64_t number);

// To be run in an order that hangs on the seed.
SimJob Make(const Case& c, uint64_t seed);

}  // namespace gordian::model::testing

#endif  // GORDIAN_TESTS_UNIT_MODEL_SIM_RANDOM_PROGRAMS_H_
