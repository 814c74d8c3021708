#include "simulator/sampling/sites.h"

#include <algorithm>
#include <unordered_map>

namespace gordian::simulator {
namespace {

constexpr uint32_t kMostGroups = 4096;
constexpr uint64_t kMostSteps = uint64_t{1} << 33;

// For each pair of groups, how many GPUs they share.
std::vector<uint16_t> SharedGpus(const Component& c) {
  std::vector<uint16_t> shared(static_cast<size_t>(c.groups) * c.groups, 0);
  for (uint32_t u = 0; u < c.gpus; ++u) {
    for (uint32_t a = c.slot_begin[u]; a < c.slot_begin[u + 1]; ++a) {
      for (uint32_t b = c.slot_begin[u]; b < c.slot_begin[u + 1]; ++b) {
        uint16_t& pair = shared[static_cast<size_t>(c.slot_group[a]) * c.groups + c.slot_group[b]];
        pair = static_cast<uint16_t>(std::min<uint32_t>(pair + 1u, UINT16_MAX));
      }
    }
  }
  return shared;
}

class M1Counter {
 public:
  M1Counter(const Component& c, bool direct) : c_(c), direct_(direct), shared_(SharedGpus(c)) {
    by_rank_.resize(c.collectives);
    for (uint32_t g = 0; g < c.groups; ++g) {
      for (uint32_t k = 0; k < c.count[g]; ++k) {
        by_rank_[c.rank[c.first[g] + k]] = g;
      }
    }
  }

  std::optional<uint64_t> Count() {
    uint64_t sum = 0;
    for (uint32_t u = 0; u < c_.gpus; ++u) {
      in_.assign(c_.groups, 0);
      for (uint32_t s = c_.slot_begin[u]; s < c_.slot_begin[u + 1]; ++s) {
        in_[c_.slot_group[s]] = 1;
      }
      for (uint32_t at = 0; at + 1 < c_.Length(u); ++at) {
        sum += Leads(c_.rank[c_.Collective(u, at)], c_.rank[c_.Collective(u, at + 1)]) ? 1 : 0;
        if (steps_ > kMostSteps) {
          return std::nullopt;
        }
      }
    }
    return sum;
  }

 private:
  // True if the groups share a GPU other than the current one.
  bool Share(uint32_t a, uint32_t b) const {
    return shared_[static_cast<size_t>(a) * c_.groups + b] > (in_[a] & in_[b]);
  }

  bool Leads(uint32_t x, uint32_t y) {
    const uint32_t to = by_rank_[y];
    if (direct_) {
      return Share(by_rank_[x], to);
    }
    reached_.assign(1, by_rank_[x]);
    for (uint32_t z = x + 1; z <= y; ++z) {
      const uint32_t group = by_rank_[z];
      steps_ += reached_.size();
      if (std::any_of(reached_.begin(), reached_.end(),
                      [&](uint32_t from) { return Share(from, group); })) {
        if (z == y) {
          return true;
        }
        if (std::find(reached_.begin(), reached_.end(), group) == reached_.end()) {
          reached_.push_back(group);
        }
      }
    }
    return false;
  }

  const Component& c_;
  const bool direct_;
  const std::vector<uint16_t> shared_;
  std::vector<uint32_t> by_rank_;  // [rank]: the group
  std::vector<uint8_t> in_;
  std::vector<uint32_t> reached_;
  uint64_t steps_ = 0;
};

// The slots of another GPU that is in both groups.
const Member* FindMember(const Component& c, uint32_t group, uint32_t gpu) {
  // Members need not be sorted; groups are small where this is called often.
  for (const Member* m = c.MembersBegin(group); m != c.MembersEnd(group); ++m) {
    if (m->gpu == gpu) {
      return m;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<uint64_t> CountM1(const Component& c) {
  return c.groups > kMostGroups ? std::nullopt : M1Counter(c, false).Count();
}

std::optional<uint64_t> CountM1Direct(const Component& c) {
  return c.groups > kMostGroups ? std::nullopt : M1Counter(c, true).Count();
}

uint64_t CountM2(const Component& c) {
  uint64_t sum = 0;
  std::vector<std::pair<const Member*, const Member*>> both;
  for (uint32_t u = 0; u < c.gpus; ++u) {
    const Profile& p = *c.profile[u];
    for (uint32_t sx = 0; sx < p.slots; ++sx) {
      for (uint32_t sy = 0; sy < p.slots; ++sy) {
        both.clear();
        const uint32_t gx = c.Group(u, sx);
        const uint32_t gy = c.Group(u, sy);
        for (const Member* m = c.MembersBegin(gx); m != c.MembersEnd(gx); ++m) {
          const Member* other = m->gpu == u ? nullptr : FindMember(c, gy, m->gpu);
          if (other != nullptr) {
            both.emplace_back(m, other);
          }
        }
        if (both.empty()) {
          continue;
        }
        for (uint32_t at = 0; at + 1 < p.length; ++at) {
          if (p.slot_at[at] != sx || p.slot_at[at + 1] != sy) {
            continue;
          }
          for (const auto& [mx, my] : both) {
            const Profile& ph = *c.profile[mx->gpu];
            const uint32_t x = ph.Position(mx->slot, p.Number(at));
            const uint32_t y = ph.Position(my->slot, p.Number(at + 1));
            sum += y > x ? y - x : 0;
          }
        }
      }
    }
  }
  return sum;
}

PairSites::PairSites(const Component& component) : c_(component) {
  ahead_.assign(c_.total + 1, 0);
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    for (uint32_t at = 0; at < c_.Length(u); ++at) {
      const uint64_t place = c_.offset[u] + at;
      ahead_[place + 1] = ahead_[place] + (at + 1 < c_.Length(u) ? CountAt(u, at) : 0);
    }
  }
}

void PairSites::Window(uint32_t x, const Profile& profile, const Member& other, uint32_t y_number,
                       uint32_t* first, uint32_t* last) const {
  *last = profile.Position(other.slot, y_number);
  // The first place in the other's list at or after x.
  uint32_t low = 0;
  uint32_t high = *last;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (c_.rank[c_.Collective(other.gpu, middle)] < c_.rank[x]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *first = low + 1;
}

uint64_t PairSites::CountAt(uint32_t gpu, uint32_t at) const {
  const Profile& p = *c_.profile[gpu];
  const uint32_t x = c_.Collective(gpu, at);
  const uint32_t group = c_.Group(gpu, p.slot_at[at + 1]);
  uint64_t sum = 0;
  for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
    if (m->gpu != gpu) {
      uint32_t first = 0;
      uint32_t last = 0;
      Window(x, *c_.profile[m->gpu], *m, p.Number(at + 1), &first, &last);
      sum += last + 1 - std::min(first, last + 1);
    }
  }
  return sum;
}

PairSite PairSites::Site(uint64_t number) const {
  const auto place = static_cast<uint64_t>(std::upper_bound(ahead_.begin(), ahead_.end(), number) -
                                           ahead_.begin() - 1);
  const auto gpu = static_cast<uint32_t>(
      std::upper_bound(c_.offset.begin(), c_.offset.end(), place) - c_.offset.begin() - 1);
  const auto at = static_cast<uint32_t>(place - c_.offset[gpu]);
  uint64_t left = number - ahead_[place];
  const Profile& p = *c_.profile[gpu];
  const uint32_t x = c_.Collective(gpu, at);
  const uint32_t group = c_.Group(gpu, p.slot_at[at + 1]);
  for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
    if (m->gpu == gpu) {
      continue;
    }
    uint32_t first = 0;
    uint32_t last = 0;
    Window(x, *c_.profile[m->gpu], *m, p.Number(at + 1), &first, &last);
    const uint64_t here = last + 1 - std::min(first, last + 1);
    if (left < here) {
      return {gpu, at, m->gpu, static_cast<uint32_t>(first + left)};
    }
    left -= here;
  }
  return {};  // unreachable: number < count()
}

uint64_t PairSites::Active(const Perturbations& drawn) const {
  uint64_t sum = 0;
  const auto before = [](const Mark& mark, uint32_t at) { return mark.at < at; };
  for (const Mark& skip : drawn.skips) {
    const uint32_t u = skip.gpu;
    const auto mine = drawn.syncs.begin() + drawn.sync_begin[u];
    const auto mine_end = drawn.syncs.begin() + drawn.sync_begin[u + 1];
    const auto wait = std::lower_bound(mine, mine_end, skip.at + 1, before);
    if (wait == mine_end || wait->at != skip.at + 1) {
      continue;
    }
    const Profile& p = *c_.profile[u];
    const uint32_t x = c_.Collective(u, skip.at);
    const uint32_t group = c_.Group(u, p.slot_at[skip.at + 1]);
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      const auto begin = drawn.syncs.begin() + drawn.sync_begin[m->gpu];
      const auto end = drawn.syncs.begin() + drawn.sync_begin[m->gpu + 1];
      if (m->gpu == u || begin == end) {
        continue;
      }
      uint32_t first = 0;
      uint32_t last = 0;
      Window(x, *c_.profile[m->gpu], *m, p.Number(skip.at + 1), &first, &last);
      sum += static_cast<uint64_t>(
          std::max<ptrdiff_t>(0, std::lower_bound(begin, end, last + 1, before) -
                                     std::lower_bound(begin, end, first, before)));
    }
  }
  return sum;
}

}  // namespace gordian::simulator
