#include "simulator/engine/progress.h"

namespace gordian::simulator {

uint32_t GpuProgress::EmitOutOfOrder(uint32_t skip) {
  if (skip < pending.size()) {
    const uint32_t at = pending[skip];
    pending.erase(pending.begin() + skip);
    return at;
  }
  for (auto more = skip - static_cast<uint32_t>(pending.size()); more > 0; --more) {
    pending.push_back(front++);
  }
  return front++;
}

Clash ClashOf(const Component& c, const std::vector<GpuProgress>& at,
              const std::vector<uint8_t>& waiting, uint32_t n) {
  Clash clash;
  const Profile& pn = *c.profile[n];
  for (uint32_t slot = 0; slot < pn.slots && !(clash.holds && clash.lacks); ++slot) {
    const uint32_t group = c.Group(n, slot);
    const uint32_t last_n = LastEmitted(pn, slot, at[n].front, at[n].pending);
    for (const Member* m = c.MembersBegin(group); m != c.MembersEnd(group); ++m) {
      if (m->gpu == n || !waiting[m->gpu]) {
        continue;
      }
      const Profile& pm = *c.profile[m->gpu];
      if (!clash.holds && last_n != kNothing) {
        clash.holds = HoldsAgainst(pn, slot, last_n, at[n], pm, m->slot, at[m->gpu]);
      }
      if (!clash.lacks) {
        const uint32_t last_m = LastEmitted(pm, m->slot, at[m->gpu].front, at[m->gpu].pending);
        clash.lacks =
            last_m != kNothing && HoldsAgainst(pm, m->slot, last_m, at[m->gpu], pn, slot, at[n]);
      }
    }
  }
  return clash;
}

bool InCircle(const Component& c, const std::vector<GpuProgress>& at,
              const std::vector<uint8_t>& waiting, uint32_t n, std::vector<uint32_t>* circle) {
  std::vector<uint32_t> came_from(c.gpus, kNobody);
  std::vector<uint32_t> open{n};
  while (!open.empty()) {
    const uint32_t u = open.back();
    open.pop_back();
    const Profile& pu = *c.profile[u];
    for (uint32_t slot = 0; slot < pu.slots; ++slot) {
      const uint32_t last = LastEmitted(pu, slot, at[u].front, at[u].pending);
      if (last == kNothing) {
        continue;
      }
      const uint32_t group = c.Group(u, slot);
      for (const Member* m = c.MembersBegin(group); m != c.MembersEnd(group); ++m) {
        const uint32_t h = m->gpu;
        if (h == u || !waiting[h] || (h != n && came_from[h] != kNobody) ||
            !HoldsAgainst(pu, slot, last, at[u], *c.profile[h], m->slot, at[h])) {
          continue;
        }
        came_from[h] = u;
        if (h == n) {
          if (circle != nullptr) {
            circle->clear();
            for (uint32_t w = u; w != n; w = came_from[w]) {
              circle->push_back(w);
            }
            circle->push_back(n);
            std::reverse(circle->begin(), circle->end());
          }
          return true;
        }
        open.push_back(h);
      }
    }
  }
  return false;
}

}  // namespace gordian::simulator
