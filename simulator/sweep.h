// Simulates many configurations: a list, or one configuration with a grid of values. Rounds come in
// numbered blocks, and a block's number fixes which process runs it, so that the result does not
// depend on the number of processes and threads. Pure: the caller exchanges between processes and
// keeps checkpoints.
#ifndef GORDIAN_SIMULATOR_SWEEP_H_
#define GORDIAN_SIMULATOR_SWEEP_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "simulator/simulate.h"

namespace gordian::simulator {

struct SweepPoint {
  Config config;
  std::vector<nlohmann::json> values;  // of Sweep::keys
};

struct Sweep {
  std::vector<std::string> keys;  // keys that the grid varies; for a list: "point"
  std::vector<SweepPoint> points;
};

// A grid is a configuration in which some value is {"log": [from, to, n]}, {"linear": [from, to,
// n]} or {"values": [...]}; the sweep has all combinations, the last key varying fastest. A list
// holds configurations. Returns the error; empty if there is none.
std::string ParseSweep(const nlohmann::json& from, Sweep* sweep);

// True for a sweep, false for one configuration.
bool IsSweep(const nlohmann::json& from);

struct SweepOptions {
  Wanted wanted;
  int64_t rounds = 0;  // per point, on average; rounded up to blocks of kSweepBlock
  uint64_t seed = 2023;
  int threads = 1;
  int ranks = 1;  // processes; this one is `rank`
  int rank = 0;
  StopAsked stop;
};

inline constexpr int64_t kSweepBlock = 1024;  // rounds
inline constexpr int kSweepStages = 8;

// The counts so far, the same in every process: blocks [0, blocks) of each point.
struct SweepCounts {
  struct Point {
    int64_t blocks = 0;
    int64_t by_default = 0;
    int64_t exact = 0;
    int64_t not_exact = 0;
  };
  int stage = 0;  // stages done, of kSweepStages
  std::vector<Point> points;

  bool complete() const { return stage == kSweepStages; }
};

// Adds up over all processes, in place. Returns false if a process has died.
using Exchange = std::function<bool(std::vector<int64_t>*)>;
// Called after each stage.
using StageDone = std::function<void(const SweepCounts&)>;

// Continues from `*counts` (default-made: starts). The first stage gives each point equally many
// blocks; later ones go to the points with the widest relative intervals. Returns the error; after
// an early stop, counts->complete() is false.
std::string RunSweep(const Sweep& sweep, const SweepOptions& options, const Exchange& exchange,
                     const StageDone& stage_done, SweepCounts* counts);

nlohmann::json SweepToJson(const Sweep&, const SweepOptions&, const SweepCounts&);
std::string SweepToCsv(const Sweep&, const SweepOptions&, const SweepCounts&);

// Counts as a checkpoint, tied to the sweep and the options that matter. Reading returns what does
// not match.
nlohmann::json CheckpointOf(const Sweep&, const SweepOptions&, const SweepCounts&);
std::string ReadCheckpoint(const nlohmann::json&, const Sweep&, const SweepOptions&, SweepCounts*);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SWEEP_H_
