// Simulates one configuration: chooses engine, estimator and rounds, and reports the result.
#ifndef GORDIAN_SIMULATOR_SIMULATE_H_
#define GORDIAN_SIMULATOR_SIMULATE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/config.h"
#include "simulator/sampling/estimate.h"

namespace gordian::simulator {

struct SimulateOptions {
  std::optional<Engine> engine;  // none: Simulate chooses
  Wanted wanted;
  uint32_t capacity = 0;      // of the exact detector; 0: the model's
  int64_t rounds = 0;         // 0: the configuration's, or 100,000
  double relative_error = 0;  // > 0: chooses rounds so that the interval is about +- this
  uint64_t seed = 2023;
  RunControl control;
};

struct DetectorReport {
  bool asked = false;
  Estimate estimate;
  std::string why;  // why this estimator
};

struct SimulateReport {
  Engine engine = Engine::kSparse;
  uint64_t seed = 0;
  int64_t rounds = 0;
  int64_t distinct_rounds = 0;  // replay with fix_seed: every process repeats the same ones
  DetectorReport by_default;
  DetectorReport exact;
  std::optional<double> false_share;  // share of the default detector's deadlocks that are none
  // The first-order approximation (exact if nothing happens twice); unset if not counted.
  std::optional<double> first_order;
  std::optional<uint64_t> m1;
  std::optional<uint64_t> m2;
  uint64_t components = 0;
  uint64_t distinct_components = 0;
  bool common_order = true;
  bool complete = true;
};

// `config` must be checked. Returns what is wrong with the options or the size; empty if nothing
// is.
std::string Simulate(const Config& config, const SimulateOptions& options, SimulateReport* report);

SamplerOptions SamplerOf(const Config& config, const SimulateOptions& options);

// FNV-1a of the configuration's JSON: equal configurations have equal hashes.
uint64_t HashOf(const Config& config);

nlohmann::json ReportToJson(const Config& config, const SimulateReport& report);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SIMULATE_H_
