// The random part of a component's round: where GPUs wait, and where they take a later collective
// than the next. Draws only the coins of the published process (section 2.4 of arXiv 2303.06324)
// that show something: the gaps between them are geometric, over all lists in a row.
#ifndef GORDIAN_SIMULATOR_ENGINE_PERTURBATION_H_
#define GORDIAN_SIMULATOR_ENGINE_PERTURBATION_H_

#include <cstdint>
#include <vector>

#include "simulator/sampling/counter_random.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// At the GPU's emission number `at` (from 0). A wait: takes `times` turns right before it. A skip:
// passes over `times` collectives of the remaining list.
struct Mark {
  uint32_t gpu;
  uint32_t at;
  uint32_t times;

  friend bool operator==(const Mark&, const Mark&) = default;
};

// Each list is sorted by GPU, then by emission, without two marks at one place. A skip never passes
// over more than remains.
struct Perturbations {
  std::vector<Mark> syncs;
  std::vector<Mark> skips;
  // After Index(): the marks of GPU u are [sync_begin[u], sync_begin[u + 1]).
  std::vector<uint32_t> sync_begin;
  std::vector<uint32_t> skip_begin;

  void Clear();
  void Index(uint32_t gpus);
  // Inserts one more sync or skip at its place. Call Index() afterwards.
  static void Insert(std::vector<Mark>* marks, uint32_t gpu, uint32_t at);
};

// Draws for one component. Not thread-safe: uses the caller's buffers.
class PerturbationSource {
 public:
  // `component` must outlive this. For the model Single pass sync_prob 0.
  PerturbationSource(const Component& component, double disorder_prob, double sync_prob);

  // `part` is the number of the component's copy. Overwrites *drawn except for its indices.
  void Draw(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

  // The two halves of Draw(), from separate streams, so that a caller can omit the skips when the
  // syncs decide alone.
  void DrawSyncs(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;
  void DrawSkips(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

  // For given syncs (sorted, distinct places) draws the skips, and how often each sync repeats.
  void DrawAround(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

 private:
  void Walk(const Gaps& gaps, bool skips, CounterStream stream, std::vector<Mark>* marks) const;
  void EverySkip(std::vector<Mark>* marks) const;

  const Component& component_;
  double disorder_prob_;
  Gaps sync_gaps_;
  Gaps skip_gaps_;
  // Which GPU's list holds a place, or one before it: [place >> guide_shift_].
  std::vector<uint32_t> guide_;
  uint32_t guide_shift_ = 0;
};

// True if a GPU waits before a collective that it skipped. Without such a wait nothing deadlocks in
// StreamWithSync (docs/simulation.md), provided component.common_order. Needs both lists of `drawn`
// sorted, and no index.
bool WaitsWhileSkipping(const Perturbations& drawn);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_PERTURBATION_H_
