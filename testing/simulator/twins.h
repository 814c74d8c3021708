// Random small jobs, and their rounds by every engine and by the naive judge.
#ifndef GORDIAN_TESTING_SIMULATOR_TWINS_H_
#define GORDIAN_TESTING_SIMULATOR_TWINS_H_

#include <cstdint>
#include <string>

#include "simulator/config.h"
#include "simulator/engine/perturbation.h"
#include "simulator/topology.h"
#include "testing/simulator/naive_judge.h"

namespace gordian::simulator {

// What the perturbations make of the component's lists, by taking entries out of a copy of the
// list.
Sequences SequencesOf(const Component&, const Perturbations&);
std::vector<GroupSpec> GroupsOf(const Component&);

// At most `gpus` GPUs and `collectives` collectives in all. Every GPU is in a group.
Config RandomJob(uint64_t number, uint32_t gpus, uint32_t collectives);

struct TwinCounts {
  int64_t rounds = 0;
  int64_t by_default = 0;
  int64_t exact = 0;
  int64_t differences = 0;
  std::string first;  // the first difference, to repeat it
};

// Rounds [0, rounds) of `config` by the turn-by-turn engine, the event engine, ring, fixpoint and
// waits only; `naive`: by the naive judge as well (small jobs).
TwinCounts CompareSync(const Config& config, uint64_t seed, int64_t rounds, bool naive);
// The model Single: turn by turn against windows; the fixpoint against the naive judge.
TwinCounts CompareSingle(const Config& config, uint64_t seed, int64_t rounds, bool naive);

}  // namespace gordian::simulator

#endif  // GORDIAN_TESTING_SIMULATOR_TWINS_H_
