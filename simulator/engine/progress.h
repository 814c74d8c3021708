// How far the GPUs of a component are, and which GPU waits for which. A GPU has emitted the first
// `front` of its list except for the few that it skipped.
#ifndef GORDIAN_SIMULATOR_ENGINE_PROGRESS_H_
#define GORDIAN_SIMULATOR_ENGINE_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulator/topology.h"

namespace gordian::simulator {

// Positions in a GPU's list, ascending.
using Pending = std::vector<uint32_t>;

struct GpuProgress {
  uint32_t front = 0;
  Pending pending;

  // Emits one: skips the first `skip` of the remaining list, in which earlier skipped ones come
  // first. Returns the position of the emitted one.
  uint32_t Emit(uint32_t skip) {
    return skip == 0 && pending.empty() ? front++ : EmitOutOfOrder(skip);
  }
  uint32_t EmitOutOfOrder(uint32_t skip);
  uint32_t Emitted() const { return front - static_cast<uint32_t>(pending.size()); }
  bool Has(uint32_t position) const {
    return position < front &&
           (pending.empty() || !std::binary_search(pending.begin(), pending.end(), position));
  }
};

inline constexpr uint32_t kNobody = UINT32_MAX;
inline constexpr uint32_t kNothing = UINT32_MAX;

// The last of the slot's collectives that a GPU has emitted; kNothing if there is none.
inline uint32_t LastEmitted(const Profile& profile, uint32_t slot, uint32_t front,
                            const Pending& pending) {
  uint32_t emitted = profile.Before(front, slot);
  while (emitted > 0 && !pending.empty() &&
         std::binary_search(pending.begin(), pending.end(), profile.Position(slot, emitted - 1))) {
    --emitted;
  }
  return emitted - 1;  // 0 becomes kNothing
}

// True if GPU u has emitted a collective of one group that h has not; `last` is u's last of that
// group.
inline bool HoldsAgainst(const Profile& pu, uint32_t slot_u, uint32_t last, const GpuProgress& u,
                         const Profile& ph, uint32_t slot_h, const GpuProgress& h) {
  if (!h.Has(ph.Position(slot_h, last))) {
    return true;
  }
  for (const uint32_t at : h.pending) {
    if (ph.slot_at[at] == slot_h) {
      const uint32_t k = ph.Number(at);
      if (k < last && u.Has(pu.Position(slot_u, k))) {
        return true;
      }
    }
  }
  return false;
}

// A GPU that lacks a collective of u, so that u's wait cannot end; kNobody if there is none.
// `at(gpu)` gives a GPU's progress.
template <class At>
uint32_t FindBlockerOf(const Component& c, const At& at, uint32_t u) {
  const Profile& pu = *c.profile[u];
  const GpuProgress& mine = at(u);
  for (uint32_t slot = 0; slot < pu.slots; ++slot) {
    const uint32_t last = LastEmitted(pu, slot, mine.front, mine.pending);
    if (last == kNothing) {
      continue;
    }
    const uint32_t group = c.Group(u, slot);
    for (const Member* m = c.MembersBegin(group); m != c.MembersEnd(group); ++m) {
      if (m->gpu != u &&
          HoldsAgainst(pu, slot, last, mine, *c.profile[m->gpu], m->slot, at(m->gpu))) {
        return m->gpu;
      }
    }
  }
  return kNobody;
}

inline uint32_t FindBlocker(const Component& component, const std::vector<GpuProgress>& at,
                            uint32_t u) {
  return FindBlockerOf(
      component, [&](uint32_t gpu) -> const GpuProgress& { return at[gpu]; }, u);
}

// How a waiting GPU conflicts with the other waiting ones (`waiting`[gpu]): it holds a collective
// that one of them lacks; it lacks one that one of them holds.
struct Clash {
  bool holds = false;
  bool lacks = false;
};
Clash ClashOf(const Component& component, const std::vector<GpuProgress>& at,
              const std::vector<uint8_t>& waiting, uint32_t n);

// True if waiting GPUs form a cycle through n: each holds what the next lacks.
bool InCircle(const Component& component, const std::vector<GpuProgress>& at,
              const std::vector<uint8_t>& waiting, uint32_t n,
              std::vector<uint32_t>* circle = nullptr);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_PROGRESS_H_
