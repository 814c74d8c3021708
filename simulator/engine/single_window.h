// The published simulation of the model Single, run only near its skips. If every list has the same
// rhythm, all groups are clear after each sweep without a skip, so the few sweeps from a skip until
// all groups are clear again decide the round.
#ifndef GORDIAN_SIMULATOR_ENGINE_SINGLE_WINDOW_H_
#define GORDIAN_SIMULATOR_ENGINE_SINGLE_WINDOW_H_

#include <cstdint>
#include <vector>

#include "simulator/engine/dense.h"
#include "simulator/engine/perturbation.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Not thread-safe.
class SingleWindow {
 public:
  explicit SingleWindow(const Component& component);  // `component` must outlive this

  // True if the published program reports a deadlock. `drawn` must be indexed. Runs the whole round
  // if the lists have no common rhythm.
  bool Run(const Perturbations& drawn);

  bool is_level() const { return level_; }

 private:
  bool RunFrom(uint32_t sweep, const Perturbations& drawn, uint32_t* clear_at);

  const Component& c_;
  DenseEngine engine_;
  bool level_ = false;
  std::vector<Mark> skips_;  // of a round, by emission
  std::vector<uint32_t> next_skip_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_SINGLE_WINDOW_H_
