// Many configurations at once: a list of them, or one with values laid out as a grid. Rounds are
// numbered blocks, and which process of several does which block is fixed, so that the result is
// the same for any number of processes and threads. Pure: exchange between processes and
// checkpoints are the caller's.
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
  std::vector<std::string> keys;  // what the grid varies; of a list: "point"
  std::vector<SweepPoint> points;
};

// A grid is a configuration in which a value is {"log": [from, to, n]}, {"linear": [from, to, n]}
// or
// {"values": [...]}; all combinations, the last key fastest. A list is of configurations. Returns
// what is wrong; empty: fine.
std::string ParseSweep(const nlohmann::json& from, Sweep* sweep);

// Whether this is a sweep, not one configuration.
bool IsSweep(const nlohmann::json& from);

struct SweepOptions {
  Wanted wanted;
  int64_t rounds = 0;  // of each point, on average; rounded up to blocks of kSweepBlock
  uint64_t seed = 2023;
  int threads = 1;
  int ranks = 1;  // processes, of which this is `rank`
  int rank = 0;
  StopAsked stop;
};

inline constexpr int64_t kSweepBlock = 1024;  // rounds
inline constexpr int kSweepStages = 8;

// What has been counted, the same in every process. Blocks [0, blocks) of each point are in it.
struct SweepCounts {
  struct Point {
    int64_t blocks = 0;
    int64_t by_default = 0;
    int64_t exact = 0;
    int64_t not_exact = 0;
  };
  int stage = 0;  // of kSweepStages, done
  std::vector<Point> points;

  bool complete() const { return stage == kSweepStages; }
};

// Adds up over all processes, in place. False: a process is gone.
using Exchange = std::function<bool(std::vector<int64_t>*)>;
// Told after each stage.
using StageDone = std::function<void(const SweepCounts&)>;

// Goes on from `*counts` (fresh: default-made). A first stage does as many blocks of each point;
// the later ones go to the points whose intervals are widest for their ratios. Returns what is
// wrong; stopped early, counts->complete() is false.
std::string RunSweep(const Sweep& sweep, const SweepOptions& options, const Exchange& exchange,
                     const StageDone& stage_done, SweepCounts* counts);

nlohmann::json SweepToJson(const Sweep&, const SweepOptions&, const SweepCounts&);
std::string SweepToCsv(const Sweep&, const SweepOptions&, const SweepCounts&);

// Counts as a checkpoint, tied to the sweep and the options that matter. Reading says what does not
// fit.
nlohmann::json CheckpointOf(const Sweep&, const SweepOptions&, const SweepCounts&);
std::string ReadCheckpoint(const nlohmann::json&, const Sweep&, const SweepOptions&, SweepCounts*);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SWEEP_H_
