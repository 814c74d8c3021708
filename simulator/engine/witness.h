// Writes rounds out, what each GPU does in order, so that the emulator can run them. There a
// deadlock must hang, and a round that only the published detector calls a deadlock must finish.
#ifndef GORDIAN_SIMULATOR_ENGINE_WITNESS_H_
#define GORDIAN_SIMULATOR_ENGINE_WITNESS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulator/simulate.h"

namespace gordian::simulator {

struct Witness {
  bool deadlock = false;  // else a false positive of the default detector
  bool forced = false;    // `round` belongs to a sample of forced pairs
  uint64_t round = 0;
  std::vector<uint32_t> gpus;                 // the configuration's numbers of the GPUs below
  std::vector<std::vector<uint32_t>> groups;  // of indices in gpus
  std::vector<uint32_t> collectives;          // the group of each
  // For each of `gpus`: indices of collectives, and kWaitEntry. A wait ends when every collective
  // started before it is complete; collectives do not hold each other up.
  std::vector<std::vector<int64_t>> sequences;
};

inline constexpr int64_t kWaitEntry = -1;

// Finds the first `each` deadlocks and, for StreamWithSync, the first `each` false positives among
// the first `rounds` rounds; forces deadlocks that are too rare for that. Each witness is one
// component of the configuration.
std::vector<Witness> FindWitnesses(const Config& config, const SimulateOptions& options,
                                   int64_t each, int64_t rounds);

nlohmann::json WitnessToJson(const Witness&);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_WITNESS_H_
