// Decides exactly whether a round deadlocks: every GPU advances while it can, collective by
// collective; what remains never finishes. The order of advancing does not matter.
#ifndef GORDIAN_SIMULATOR_ENGINE_FIXPOINT_H_
#define GORDIAN_SIMULATOR_ENGINE_FIXPOINT_H_

#include <cstdint>
#include <vector>

#include "simulator/engine/perturbation.h"
#include "simulator/engine/progress.h"
#include "simulator/topology.h"

namespace gordian::simulator {

inline constexpr uint32_t kUnbounded = UINT32_MAX;

// A GPU has at most `capacity` collectives started and incomplete (the model Single: 1). A wait
// passes when all collectives started before it are complete; a collective completes when all
// members have started it. Not thread-safe.
class Fixpoint {
 public:
  Fixpoint(const Component& component, uint32_t capacity);  // `component` must outlive this

  bool Deadlocks(const Perturbations& drawn);  // indexed

  // True for a stuck GPU; valid after Deadlocks() returned true.
  bool IsStuck(uint32_t gpu) const { return at_[gpu].Emitted() < c_.Length(gpu); }
  const std::vector<GpuProgress>& progress() const { return at_; }

 private:
  void Go(uint32_t u, const Perturbations& drawn);

  const Component& c_;
  const uint32_t capacity_;
  std::vector<GpuProgress> at_;
  std::vector<uint32_t> arrived_;  // [collective]
  std::vector<uint32_t> held_;     // [gpu]: started and incomplete
  std::vector<uint32_t> next_sync_;
  std::vector<uint32_t> next_skip_;
  std::vector<uint8_t> stopped_;
  std::vector<uint32_t> open_;
};

// The same without a bound on started collectives, for rounds with few waits: looks at waits only.
// A GPU stands at its next wait, which passes unless some GPU, at its own wait, lacks a collective
// that this one holds. Not thread-safe.
class SyncGraph {
 public:
  explicit SyncGraph(const Component& component);  // `component` must outlive this

  bool Deadlocks(const Perturbations& drawn);  // indexed

 private:
  void Advance(uint32_t u, const Perturbations& drawn);

  const Component& c_;
  std::vector<GpuProgress> at_;
  std::vector<uint32_t> next_sync_;
  std::vector<uint32_t> next_skip_;
  std::vector<uint32_t> watchers_;  // [gpu]: first of the GPUs whose wait it holds up
  std::vector<uint32_t> next_watcher_;
  std::vector<uint32_t> open_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_FIXPOINT_H_
