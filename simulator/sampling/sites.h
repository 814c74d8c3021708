// Where a deadlock can begin: the first-order counts in the rates of disorder and of waiting
// (docs/simulation.md), and the places at which the estimators force rare deadlocks.
#ifndef GORDIAN_SIMULATOR_SAMPLING_SITES_H_
#define GORDIAN_SIMULATOR_SAMPLING_SITES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/engine/perturbation.h"
#include "simulator/parallel.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Counts, over all GPUs, the neighbours x, y in a list such that taking y first makes GPUs that
// take x first wait. Single: P is about 1 - exp(-p * M1). Returns nothing for a component too large
// to count, and when `stop` says so.
std::optional<uint64_t> CountM1(const Component&, const StopAsked& stop = nullptr);
// The same, only for x and y whose groups share another GPU.
std::optional<uint64_t> CountM1Direct(const Component&);

// Over all neighbours x, y in a GPU's list and all other GPUs in both groups, adds up how far apart
// x and y are in that GPU's list. StreamWithSync: P is about p * q^2 * M2.
// Returns nothing for a component too large to count, and when `stop` says so.
std::optional<uint64_t> CountM2(const Component&, const StopAsked& stop = nullptr);

// A site of StreamWithSync: GPU `gpu` takes y before x (emission `at` skips x) and waits right
// then, while `other`, of y's group, waits before its emission `wait` having emitted something from
// x on, but not y.
struct PairSite {
  uint32_t gpu;
  uint32_t at;
  uint32_t other;
  uint32_t wait;
};

// All sites of a component, without a list of them. Immutable.
class PairSites {
 public:
  explicit PairSites(const Component& component);  // `component` must outlive this

  uint64_t count() const { return ahead_.empty() ? 0 : ahead_.back(); }
  PairSite Site(uint64_t number) const;  // number < count()

  // For how many of them a round (indexed) shows all three coins.
  uint64_t Active(const Perturbations& drawn) const;

 private:
  // The waits of `other` that match emission `at` of `gpu`: [first, last].
  void Window(uint32_t x, const Profile& profile, const Member& other, uint32_t y_number,
              uint32_t* first, uint32_t* last) const;
  // How many of them there are.
  uint64_t CountOf(uint32_t x, const Member& other, uint32_t y_number) const;

  const Component& c_;
  std::vector<uint64_t> ahead_;  // [offset[gpu] + at + 1]: sites up to there
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_SITES_H_
