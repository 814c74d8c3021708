// One configuration simulated: which engine and estimator, how many rounds, what came out.
#ifndef GORDIAN_SIMULATOR_SIMULATE_H_
#define GORDIAN_SIMULATOR_SIMULATE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/config.h"
#include "simulator/estimate.h"

namespace gordian::simulator {

struct SimulateOptions {
  std::optional<Engine> engine;  // none: chosen
  Wanted wanted;
  uint32_t capacity = 0;      // of the exact detector; 0: as the model says
  int64_t rounds = 0;         // 0: the configuration's, or 100,000
  double relative_error = 0;  // > 0: so many rounds that the interval is about +- this
  uint64_t seed = 2023;
  RunControl control;
};

struct DetectorReport {
  bool asked = false;
  Estimate estimate;
  std::string why;  // this estimator
};

struct SimulateReport {
  Engine engine = Engine::kSparse;
  uint64_t seed = 0;
  int64_t rounds = 0;
  int64_t distinct_rounds = 0;  // replay with fix_seed: each process repeats the same ones
  DetectorReport by_default;
  DetectorReport exact;
  std::optional<double> false_share;  // of the deadlocks by default, those that are none
  // First order: exact probability when nothing happens twice; unset where it was not counted.
  std::optional<double> first_order;
  std::optional<uint64_t> m1;
  std::optional<uint64_t> m2;
  uint64_t components = 0;
  uint64_t distinct_components = 0;
  bool common_order = true;
  bool complete = true;
};

// `config` has been checked. Returns what is wrong with the options or the size; empty: fine.
std::string Simulate(const Config& config, const SimulateOptions& options, SimulateReport* report);

SamplerOptions SamplerOf(const Config& config, const SimulateOptions& options);

// FNV-1a of the configuration's JSON: the same for the same question.
uint64_t HashOf(const Config& config);

nlohmann::json ReportToJson(const Config& config, const SimulateReport& report);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SIMULATE_H_
