// The published simulation of the model Single, looked at only near its skips. Where every list has
// the same rhythm, all groups are clear after each sweep without a skip, so a round's verdict is
// decided in the few sweeps from a skip until all is clear again.
#ifndef GORDIAN_SIMULATOR_SINGLE_WINDOW_H_
#define GORDIAN_SIMULATOR_SINGLE_WINDOW_H_

#include <cstdint>
#include <vector>

#include "simulator/dense.h"
#include "simulator/perturbation.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Not thread-safe.
class SingleWindow {
 public:
  explicit SingleWindow(const Component& component);  // `component` must outlive this

  // Whether the published program calls the round a deadlock. `drawn` indexed. Where the lists have
  // no common rhythm the whole round is run.
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

#endif  // GORDIAN_SIMULATOR_SINGLE_WINDOW_H_
