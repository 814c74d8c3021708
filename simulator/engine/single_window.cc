#include "simulator/engine/single_window.h"

#include <algorithm>

namespace gordian::simulator {

SingleWindow::SingleWindow(const Component& component)
    : c_(component), engine_(component, {.model = Model::kSingle}) {
  level_ = engine_.IsLevel();
  engine_.Reset();
}

// In this model a turn is an emission, so every GPU has emitted as many as there were sweeps.
// Starts with all groups clear; ends when they are clear again and nothing is skipped.
bool SingleWindow::RunFrom(uint32_t sweep, const Perturbations& drawn, uint32_t* clear_at) {
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    engine_.at_[u].front = std::min(sweep, c_.Length(u));
    engine_.at_[u].pending.clear();
  }
  engine_.lost_ = 0;
  while (true) {
    bool odd = false;
    bool any = false;
    for (uint32_t u = 0; u < c_.gpus; ++u) {
      if (sweep >= c_.Length(u)) {
        continue;
      }
      any = true;
      uint32_t skip = 0;
      uint32_t& next = next_skip_[u];
      while (next != drawn.skip_begin[u + 1] && drawn.skips[next].at < sweep) {
        ++next;
      }
      if (next != drawn.skip_begin[u + 1] && drawn.skips[next].at == sweep) {
        skip = drawn.skips[next++].times;
      }
      if (engine_.Submit(u, engine_.at_[u].Emit(skip))) {
        return true;
      }
      odd |= !engine_.at_[u].pending.empty();
    }
    ++sweep;
    // After a lost collective its group may be clear or not, but its members are out of step.
    if (!any || (!odd && engine_.half_way_ == 0 && engine_.lost_ == 0)) {
      *clear_at = any ? sweep : UINT32_MAX;
      return false;
    }
  }
}

bool SingleWindow::Run(const Perturbations& drawn) {
  if (!level_) {
    return engine_.Run(drawn).deadlock;
  }
  if (drawn.skips.empty()) {
    return false;
  }
  skips_ = drawn.skips;
  std::sort(skips_.begin(), skips_.end(), [](const Mark& a, const Mark& b) { return a.at < b.at; });
  next_skip_.assign(drawn.skip_begin.begin(), drawn.skip_begin.begin() + c_.gpus);
  engine_.Reset();
  uint32_t clear_at = 0;
  for (const Mark& skip : skips_) {
    if (skip.at >= clear_at && RunFrom(skip.at, drawn, &clear_at)) {
      return true;
    }
  }
  return false;
}

}  // namespace gordian::simulator
