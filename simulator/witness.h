// Rounds written out: what each GPU does, in its order, so that the emulator can run it. A deadlock
// must hang there; a round that only the published detector calls a deadlock must finish.
#ifndef GORDIAN_SIMULATOR_WITNESS_H_
#define GORDIAN_SIMULATOR_WITNESS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulator/simulate.h"

namespace gordian::simulator {

struct Witness {
  bool deadlock = false;  // else: called one by default, and none
  bool forced = false;    // `round` is of a sample of forced pairs
  uint64_t round = 0;
  std::vector<uint32_t> gpus;                 // the configuration's numbers of what follows
  std::vector<std::vector<uint32_t>> groups;  // of indices in gpus
  std::vector<uint32_t> collectives;          // the group of each
  // Of each of `gpus`: collectives by index, and kWaitEntry. What is held at a wait must be
  // complete for it to end; collectives do not hold up each other.
  std::vector<std::vector<int64_t>> sequences;
};

inline constexpr int64_t kWaitEntry = -1;

// The first `each` deadlocks and, of StreamWithSync, the first `each` false positives among the
// first `rounds` rounds; deadlocks too rare for that are forced. One component of the configuration
// each.
std::vector<Witness> FindWitnesses(const Config& config, const SimulateOptions& options,
                                   int64_t each, int64_t rounds);

nlohmann::json WitnessToJson(const Witness&);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_WITNESS_H_
