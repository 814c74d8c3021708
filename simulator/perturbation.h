// What is random in a round of a component: where GPUs wait and where they take a later collective
// than the next. All coins of the published process (section 2.4 of arXiv 2303.06324) that show
// neither are left undrawn: the gaps between the others are geometric, over all lists one behind
// the other.
#ifndef GORDIAN_SIMULATOR_PERTURBATION_H_
#define GORDIAN_SIMULATOR_PERTURBATION_H_

#include <cstdint>
#include <vector>

#include "simulator/counter_random.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// At the GPU's emission number `at` (from 0). A wait: so many turns right before it. A skip: so
// many of the remaining list are passed over.
struct Mark {
  uint32_t gpu;
  uint32_t at;
  uint32_t times;

  friend bool operator==(const Mark&, const Mark&) = default;
};

// Each list sorted by GPU, then by emission; no two marks of a list at one place. A skip passes
// over no more than there is to pass over.
struct Perturbations {
  std::vector<Mark> syncs;
  std::vector<Mark> skips;
  // With Index(): marks of GPU u are [sync_begin[u], sync_begin[u + 1]).
  std::vector<uint32_t> sync_begin;
  std::vector<uint32_t> skip_begin;

  void Clear();
  void Index(uint32_t gpus);
  // Puts one more sync or skip where it belongs. Index() afterwards.
  static void Insert(std::vector<Mark>* marks, uint32_t gpu, uint32_t at);
};

// Draws for one component. Not thread-safe (keeps nothing, but the caller's buffers).
class PerturbationSource {
 public:
  // `component` must outlive this. In the model Single pass sync_prob 0.
  PerturbationSource(const Component& component, double disorder_prob, double sync_prob);

  // `part` is the number of the component's copy. Overwrites *drawn, all but the indices.
  void Draw(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

  // The two halves of Draw(), from streams of their own, so that the skips may be left out where
  // the syncs alone decide.
  void DrawSyncs(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;
  void DrawSkips(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

  // The syncs are given (sorted, no place twice); only the skips and how often each sync is
  // repeated are drawn.
  void DrawAround(uint64_t seed, uint64_t round, uint64_t part, Perturbations* drawn) const;

 private:
  void Walk(const Gaps& gaps, bool skips, CounterStream stream, std::vector<Mark>* marks) const;
  void EverySkip(std::vector<Mark>* marks) const;

  const Component& component_;
  double disorder_prob_;
  Gaps sync_gaps_;
  Gaps skip_gaps_;
  // Which GPU's list a place is in, or one before it: [place >> guide_shift_].
  std::vector<uint32_t> guide_;
  uint32_t guide_shift_ = 0;
};

// Whether a GPU waits while a collective that it passed over is still to come. Without that nothing
// deadlocks in StreamWithSync: see docs/simulation.md. Needs component.common_order to mean so.
// Both lists of `drawn` sorted; no index needed.
bool WaitsWhileSkipping(const Perturbations& drawn);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_PERTURBATION_H_
