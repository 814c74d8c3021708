#include "simulator/sampling/sites.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace gordian::simulator {
namespace {

constexpr uint32_t kMostGroups = 4096;
constexpr uint64_t kMostSteps = uint64_t{1} << 33;
constexpr uint64_t kMostSlotPairs = uint64_t{1} << 25;

// Bounds a count: by kMostSteps, and by the caller's wish to stop.
class Steps {
 public:
  explicit Steps(const StopAsked& stop) : stop_(stop) {}

  // False: gives up, and from then on always.
  bool Spend(uint64_t steps) {
    spent_ += steps;
    if (spent_ >= look_) {
      look_ = spent_ + (uint64_t{1} << 20);
      if (stop_ && stop_()) spent_ = kMostSteps + 1;
    }
    return spent_ <= kMostSteps;
  }

 private:
  const StopAsked& stop_;
  uint64_t spent_ = 0;
  uint64_t look_ = 0;
};

// For each pair of groups, how many GPUs they share.
std::vector<uint16_t> SharedGpus(const Component& c, Steps* steps) {
  std::vector<uint16_t> shared(static_cast<size_t>(c.groups) * c.groups, 0);
  for (uint32_t u = 0; u < c.gpus; ++u) {
    const uint64_t slots = c.profile[u]->slots;
    if (!steps->Spend(slots * slots)) break;
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
  M1Counter(const Component& c, bool direct, const StopAsked& stop)
      : c_(c), direct_(direct), steps_(stop), shared_(SharedGpus(c, &steps_)) {
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
        if (!steps_.Spend(1)) return std::nullopt;
      }
    }
    return steps_.Spend(0) ? std::optional(sum) : std::nullopt;
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
      (void)steps_.Spend(reached_.size());
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
  Steps steps_;
  const std::vector<uint16_t> shared_;
  std::vector<uint32_t> by_rank_;  // [rank]: the group
  std::vector<uint8_t> in_;
  std::vector<uint32_t> reached_;
};

// What neighbours x, y of one list count at another member of both their groups depends on x, y and
// that member's profile alone. So M2Counter goes by pairs of groups, and counts equal neighbours and
// equal members once.
class M2Counter {
 public:
  M2Counter(const Component& c, const StopAsked& stop) : c_(c), steps_(stop) {}

  std::optional<uint64_t> Count() {
    for (const auto& profile : c_.profiles) FindPlaces(*profile);
    const bool all = CollectSlotPairs();
    uint64_t sum = 0;
    for (size_t begin = 0, end = 0; begin < pairs_.size(); begin = end) {
      while (end < pairs_.size() && pairs_[end].SameGroups(pairs_[begin])) ++end;
      FindNeighbours(begin, end);
      if (neighbours_.empty()) continue;
      members_.assign(pairs_.begin() + static_cast<ptrdiff_t>(begin),
                      pairs_.begin() + static_cast<ptrdiff_t>(end));
      if (!all) FindMembers(pairs_[begin].gx, pairs_[begin].gy);
      for (const Neighbours& n : neighbours_) {
        uint64_t apart = 0;
        for (const SlotPair& m : members_) {
          const uint32_t x = m.profile->Position(m.sx, n.kx);
          const uint32_t y = m.profile->Position(m.sy, n.ky);
          apart += y > x ? (y - x) * m.gpus : 0;
        }
        sum += n.gpus * (apart - 1);  // at the GPU itself they are 1 apart
        if (!steps_.Spend(members_.size())) return std::nullopt;
      }
      if (!steps_.Spend(end - begin)) return std::nullopt;
    }
    return steps_.Spend(0) ? std::optional(sum) : std::nullopt;
  }

 private:
  // GPUs of one profile that have two groups in the same slots.
  struct SlotPair {
    uint32_t gx, gy;
    const Profile* profile;
    uint32_t sx, sy;
    uint64_t gpus;

    auto Key() const { return std::tie(gx, gy, profile, sx, sy); }
    bool SameGroups(const SlotPair& other) const { return gx == other.gx && gy == other.gy; }
  };
  // The kx-th collective of one group, and right behind it the ky-th of another, in the lists of
  // `gpus` GPUs.
  struct Neighbours {
    uint32_t kx, ky;
    uint64_t gpus;

    auto Key() const { return std::tie(kx, ky); }
  };
  // The same by slots, in a profile.
  struct Place {
    uint32_t sx, sy, kx, ky;

    auto Slots() const { return std::tie(sx, sy); }
  };
  using Places = std::vector<Place>;  // sorted by slots

  // Sorts, and makes one of equal entries.
  template <typename Entry>
  static void Join(std::vector<Entry>* all) {
    std::sort(all->begin(), all->end(),
              [](const Entry& a, const Entry& b) { return a.Key() < b.Key(); });
    size_t kept = 0;
    for (const Entry& entry : *all) {
      if (kept > 0 && (*all)[kept - 1].Key() == entry.Key()) {
        (*all)[kept - 1].gpus += entry.gpus;
      } else {
        (*all)[kept++] = entry;
      }
    }
    all->resize(kept);
  }

  void FindPlaces(const Profile& p) {
    Places& places = places_[&p];
    for (uint32_t at = 0; at + 1 < p.length; ++at) {
      places.push_back({p.slot_at[at], p.slot_at[at + 1], p.Number(at), p.Number(at + 1)});
    }
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.Slots() < b.Slots(); });
  }

  // Collects all pairs of slots, or, where GPUs are in very many groups, only those of neighbours.
  // Returns true for the first.
  bool CollectSlotPairs() {
    uint64_t squares = 0;
    for (uint32_t u = 0; u < c_.gpus; ++u) {
      squares += uint64_t{c_.profile[u]->slots} * c_.profile[u]->slots;
    }
    const bool all = squares <= kMostSlotPairs;
    for (uint32_t u = 0; u < c_.gpus && steps_.Spend(1); ++u) {
      const Profile& p = *c_.profile[u];
      const auto add = [&](uint32_t sx, uint32_t sy) {
        pairs_.push_back({c_.Group(u, sx), c_.Group(u, sy), &p, sx, sy, 1});
      };
      if (all) {
        for (uint32_t sx = 0; sx < p.slots; ++sx) {
          for (uint32_t sy = 0; sy < p.slots; ++sy) add(sx, sy);
        }
        continue;
      }
      const Places& places = places_.at(&p);
      for (size_t i = 0; i < places.size(); ++i) {
        if (i == 0 || places[i].Slots() != places[i - 1].Slots()) add(places[i].sx, places[i].sy);
      }
      if (pairs_.size() > kMostSlotPairs) Join(&pairs_);
      (void)steps_.Spend(places.size() + (pairs_.size() > kMostSlotPairs ? kMostSteps : 0));
    }
    Join(&pairs_);
    return all;
  }

  void FindNeighbours(size_t begin, size_t end) {
    neighbours_.clear();
    for (size_t i = begin; i < end; ++i) {
      const SlotPair& pair = pairs_[i];
      const Places& places = places_.at(pair.profile);
      const Place wanted{pair.sx, pair.sy, 0, 0};
      const auto [first, last] =
          std::equal_range(places.begin(), places.end(), wanted,
                           [](const Place& a, const Place& b) { return a.Slots() < b.Slots(); });
      for (auto place = first; place != last; ++place) {
        neighbours_.push_back({place->kx, place->ky, pair.gpus});
      }
    }
    Join(&neighbours_);
  }

  // The GPUs that are in both groups, also those where no x and y are neighbours.
  void FindMembers(uint32_t gx, uint32_t gy) {
    members_.clear();
    const bool x_is_smaller = c_.GroupSize(gx) <= c_.GroupSize(gy);
    const uint32_t small = x_is_smaller ? gx : gy;
    const uint32_t large = x_is_smaller ? gy : gx;
    for (const Member* m = c_.MembersBegin(small); m != c_.MembersEnd(small); ++m) {
      // A GPU's groups are in ascending order.
      const auto begin = c_.slot_group.begin() + c_.slot_begin[m->gpu];
      const auto end = c_.slot_group.begin() + c_.slot_begin[m->gpu + 1];
      const auto found = std::lower_bound(begin, end, large);
      if (found == end || *found != large) continue;
      const auto other = static_cast<uint32_t>(found - begin);
      members_.push_back({gx, gy, c_.profile[m->gpu], x_is_smaller ? m->slot : other,
                          x_is_smaller ? other : m->slot, 1});
    }
    (void)steps_.Spend(c_.GroupSize(small));
    Join(&members_);
  }

  const Component& c_;
  Steps steps_;
  std::unordered_map<const Profile*, Places> places_;
  std::vector<SlotPair> pairs_;  // sorted
  std::vector<Neighbours> neighbours_;
  std::vector<SlotPair> members_;
};

}  // namespace

std::optional<uint64_t> CountM1(const Component& c, const StopAsked& stop) {
  return c.groups > kMostGroups ? std::nullopt : M1Counter(c, false, stop).Count();
}

std::optional<uint64_t> CountM1Direct(const Component& c) {
  return c.groups > kMostGroups ? std::nullopt : M1Counter(c, true, nullptr).Count();
}

std::optional<uint64_t> CountM2(const Component& c, const StopAsked& stop) {
  return M2Counter(c, stop).Count();
}

PairSites::PairSites(const Component& component) : c_(component) {
  ahead_.assign(c_.total + 1, 0);
  std::unordered_map<uint64_t, uint64_t> of_pair;  // by x and y: its sites at all members
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    const Profile& p = *c_.profile[u];
    for (uint32_t at = 0; at < p.length; ++at) {
      const uint64_t place = c_.offset[u] + at;
      ahead_[place + 1] = ahead_[place];
      if (at + 1 == p.length) continue;
      const uint32_t x = c_.Collective(u, at);
      const uint32_t y = c_.Collective(u, at + 1);
      const auto [known, fresh] = of_pair.emplace(uint64_t{x} << 32 | y, 0);
      if (fresh) {
        const uint32_t group = c_.Group(u, p.slot_at[at + 1]);
        for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
          known->second += CountOf(x, *m, p.Number(at + 1));
        }
      }
      ahead_[place + 1] += known->second - CountOf(x, {u, p.slot_at[at + 1]}, p.Number(at + 1));
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

uint64_t PairSites::CountOf(uint32_t x, const Member& other, uint32_t y_number) const {
  uint32_t first = 0;
  uint32_t last = 0;
  Window(x, *c_.profile[other.gpu], other, y_number, &first, &last);
  return last + 1 - std::min(first, last + 1);
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
