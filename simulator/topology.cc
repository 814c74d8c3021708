#include "simulator/topology.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>

namespace gordian::simulator {
namespace {

// Most table entries of all shapes together, and of a component: some GiB.
constexpr uint64_t kMostEntries = uint64_t{1} << 28;

struct Part {
  std::vector<uint32_t> gpus;    // names
  std::vector<uint32_t> groups;  // names
  uint64_t copies = 1;
};

std::shared_ptr<const Profile> MakeProfile(std::vector<uint32_t> slot_at, uint32_t slots) {
  auto made = std::make_shared<Profile>();
  Profile& p = *made;
  p.length = static_cast<uint32_t>(slot_at.size());
  p.slots = slots;
  p.slot_at = std::move(slot_at);
  p.before.assign(static_cast<size_t>(p.length + 1) * slots, 0);
  for (uint32_t at = 0; at < p.length; ++at) {
    std::copy_n(p.before.begin() + static_cast<ptrdiff_t>(at) * slots, slots,
                p.before.begin() + static_cast<ptrdiff_t>(at + 1) * slots);
    ++p.before[static_cast<size_t>(at + 1) * slots + p.slot_at[at]];
  }
  p.first.assign(slots + 1, 0);
  for (uint32_t s = 0; s < slots; ++s) {
    p.first[s + 1] = p.first[s] + p.Before(p.length, s);
  }
  p.position.resize(p.length);
  std::vector<uint32_t> next(p.first.begin(), p.first.end() - 1);
  for (uint32_t at = 0; at < p.length; ++at) {
    p.position[next[p.slot_at[at]]++] = at;
  }
  return made;
}

// The list of a GPU whose groups have these counts.
std::vector<uint32_t> Arrange(const std::vector<uint32_t>& counts, ListOrder order) {
  std::vector<uint32_t> slot_at;
  slot_at.reserve(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  if (order == ListOrder::kConcat) {
    for (uint32_t s = 0; s < counts.size(); ++s) {
      slot_at.insert(slot_at.end(), counts[s], s);
    }
    return slot_at;
  }
  const uint32_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  for (uint32_t k = 0; k < most; ++k) {
    for (uint32_t s = 0; s < counts.size(); ++s) {
      if (k < counts[s]) {
        slot_at.push_back(s);
      }
    }
  }
  return slot_at;
}

// Numbers the collectives in one order that agrees with every list (Kahn, smallest first); returns
// false if there is none.
bool RankByLists(Component* c) {
  std::vector<std::vector<uint32_t>> after(c->collectives);
  std::vector<uint32_t> ahead(c->collectives, 0);
  for (uint32_t u = 0; u < c->gpus; ++u) {
    for (uint32_t at = 1; at < c->Length(u); ++at) {
      after[c->Collective(u, at - 1)].push_back(c->Collective(u, at));
      ++ahead[c->Collective(u, at)];
    }
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t x = 0; x < c->collectives; ++x) {
    if (ahead[x] == 0) {
      ready.push(x);
    }
  }
  uint32_t next = 0;
  while (!ready.empty()) {
    const uint32_t x = ready.top();
    ready.pop();
    c->rank[x] = next++;
    for (uint32_t y : after[x]) {
      if (--ahead[y] == 0) {
        ready.push(y);
      }
    }
  }
  return next == c->collectives;
}

void RankCollectives(ListOrder order, Component* c) {
  c->rank.resize(c->collectives);
  c->common_order = true;
  if (order == ListOrder::kGiven) {
    c->common_order = RankByLists(c);
    return;
  }
  if (order == ListOrder::kConcat) {
    std::iota(c->rank.begin(), c->rank.end(), 0u);
    return;
  }
  const uint32_t most = *std::max_element(c->count.begin(), c->count.end());
  std::vector<uint32_t> alive(c->groups);
  std::iota(alive.begin(), alive.end(), 0u);
  uint32_t next = 0;
  for (uint32_t k = 0; k < most; ++k) {
    std::erase_if(alive, [&](uint32_t g) { return c->count[g] <= k; });
    for (uint32_t g : alive) {
      c->rank[c->first[g] + k] = next++;
    }
  }
}

class Builder {
 public:
  Builder(const Config& config, Problem* problem) : config_(config), problem_(problem) {}

  std::string Build(bool split) {
    std::vector<Part> parts;
    if (config_.megatron) {
      parts = MegatronParts(split);
    } else {
      specs_ = config_.groups;
      parts = ArbitraryParts(split);
    }
    std::unordered_map<std::string, size_t> known;  // shape -> index in problem_->components
    for (Part& part : parts) {
      problem_->component_count += part.copies;
      std::string problem = Add(part, &known);
      if (!problem.empty()) {
        return problem;
      }
    }
    return "";
  }

 private:
  std::vector<Part> MegatronParts(bool split) {
    const auto a = static_cast<uint32_t>(config_.tp_group_size);
    const auto d = static_cast<uint32_t>(config_.dp_group_size);
    const auto s = static_cast<uint32_t>(config_.pp_group_size);
    const uint32_t built = split ? 1 : s;  // all stages are alike
    Part part;
    part.copies = split ? s : 1;
    for (uint32_t stage = 0; stage < built; ++stage) {
      for (uint32_t t = 0; t < d; ++t) {
        GroupSpec group{.gpus = {}, .count = static_cast<uint32_t>(config_.coll_cnt_per_tp_group)};
        for (uint32_t j = 0; j < a; ++j) {
          group.gpus.push_back(stage * a * d + t * a + j);
        }
        specs_.push_back(std::move(group));
      }
      for (uint32_t j = 0; j < a; ++j) {
        GroupSpec group{.gpus = {}, .count = static_cast<uint32_t>(config_.coll_cnt_per_dp_group)};
        for (uint32_t t = 0; t < d; ++t) {
          group.gpus.push_back(stage * a * d + t * a + j);
        }
        specs_.push_back(std::move(group));
      }
    }
    part.gpus.resize(static_cast<size_t>(a) * d * built);
    std::iota(part.gpus.begin(), part.gpus.end(), 0u);
    part.groups.resize(specs_.size());
    std::iota(part.groups.begin(), part.groups.end(), 0u);
    return {std::move(part)};
  }

  std::vector<Part> ArbitraryParts(bool split) {
    const auto gpus = static_cast<uint32_t>(config_.gpu_num);
    std::vector<uint32_t> root(gpus);
    std::iota(root.begin(), root.end(), 0u);
    const auto find = [&](uint32_t x) {
      while (root[x] != x) {
        x = root[x] = root[root[x]];
      }
      return x;
    };
    for (const GroupSpec& spec : specs_) {
      for (uint32_t gpu : spec.gpus) {
        // Without splitting all belong together; the smaller number stays the root.
        const uint32_t one = find(split ? spec.gpus.front() : 0);
        const uint32_t other = find(gpu);
        root[std::max(one, other)] = std::min(one, other);
      }
    }
    std::vector<Part> parts;
    std::unordered_map<uint32_t, size_t> part_of;
    for (uint32_t gpu = 0; gpu < gpus; ++gpu) {
      const auto [at, fresh] = part_of.emplace(find(gpu), parts.size());
      if (fresh) {
        parts.emplace_back();
      }
      parts[at->second].gpus.push_back(gpu);
    }
    for (uint32_t g = 0; g < specs_.size(); ++g) {
      parts[part_of[find(specs_[g].gpus.front())]].groups.push_back(g);
    }
    return parts;
  }

  // Adds the component, or one more copy of an equal one.
  std::string Add(const Part& part, std::unordered_map<std::string, size_t>* known) {
    std::unordered_map<uint32_t, uint32_t> local;  // name -> number
    for (uint32_t i = 0; i < part.gpus.size(); ++i) {
      local.emplace(part.gpus[i], i);
    }
    std::string shape;
    const auto write = [&](uint32_t number) {
      shape.append(reinterpret_cast<const char*>(&number), sizeof(number));
    };
    write(static_cast<uint32_t>(part.gpus.size()));
    std::unordered_map<uint32_t, uint32_t> local_group;
    for (uint32_t i = 0; i < part.groups.size(); ++i) {
      const GroupSpec& spec = specs_[part.groups[i]];
      local_group.emplace(part.groups[i], i);
      write(spec.count);
      write(static_cast<uint32_t>(spec.gpus.size()));
      for (uint32_t gpu : spec.gpus) {
        write(local.at(gpu));
      }
    }
    if (config_.lists == ListOrder::kGiven) {
      for (uint32_t gpu : part.gpus) {
        for (uint32_t group : config_.order[gpu]) {
          write(local_group.at(group));
        }
      }
    }
    const auto [at, fresh] = known->emplace(std::move(shape), problem_->components.size());
    if (!fresh) {
      problem_->components[at->second].copies += part.copies;
      return "";
    }
    Component c;
    c.copies = part.copies;
    std::string problem = Fill(part, local, local_group, &c);
    if (problem.empty()) {
      problem_->components.push_back(std::move(c));
    }
    return problem;
  }

  std::string Fill(const Part& part, const std::unordered_map<uint32_t, uint32_t>& local,
                   const std::unordered_map<uint32_t, uint32_t>& local_group, Component* c) {
    c->gpus = static_cast<uint32_t>(part.gpus.size());
    c->groups = static_cast<uint32_t>(part.groups.size());
    c->gpu_names = part.gpus;
    c->group_names = part.groups;
    std::vector<std::vector<uint32_t>> groups_of(c->gpus);
    uint64_t collectives = 0;
    c->member_begin.push_back(0);
    for (uint32_t g = 0; g < c->groups; ++g) {
      const GroupSpec& spec = specs_[part.groups[g]];
      c->count.push_back(spec.count);
      c->first.push_back(static_cast<uint32_t>(collectives));
      collectives += spec.count;
      if (collectives > kMostEntries) {
        return "coll_cnt of GPUs that belong together sums to more than " +
               std::to_string(kMostEntries) + " collectives: too large to simulate";
      }
      for (uint32_t gpu : spec.gpus) {
        const uint32_t u = local.at(gpu);
        c->members.push_back({u, static_cast<uint32_t>(groups_of[u].size())});
        groups_of[u].push_back(g);
      }
      c->member_begin.push_back(static_cast<uint32_t>(c->members.size()));
    }
    c->first.push_back(static_cast<uint32_t>(collectives));
    c->collectives = static_cast<uint32_t>(collectives);

    c->slot_begin.push_back(0);
    c->offset.push_back(0);
    for (uint32_t u = 0; u < c->gpus; ++u) {
      c->slot_group.insert(c->slot_group.end(), groups_of[u].begin(), groups_of[u].end());
      c->slot_begin.push_back(static_cast<uint32_t>(c->slot_group.size()));
      std::string problem = Shape(u, groups_of[u], part.gpus[u], local_group, c);
      if (!problem.empty()) {
        return problem;
      }
      c->offset.push_back(c->offset.back() + c->profile[u]->length);
    }
    c->total = c->offset.back();
    RankCollectives(config_.lists, c);
    return "";
  }

  // Gives GPU u of `c` its profile, sharing an equal one.
  std::string Shape(uint32_t u, const std::vector<uint32_t>& groups, uint32_t name,
                    const std::unordered_map<uint32_t, uint32_t>& local_group, Component* c) {
    std::vector<uint32_t> counts;
    uint64_t length = 0;
    for (uint32_t g : groups) {
      counts.push_back(c->count[g]);
      length += c->count[g];
    }
    std::vector<uint32_t> key = counts;
    if (config_.lists == ListOrder::kGiven) {
      for (uint32_t group : config_.order[name]) {
        const uint32_t g = local_group.at(group);
        key.push_back(static_cast<uint32_t>(std::lower_bound(groups.begin(), groups.end(), g) -
                                            groups.begin()));
      }
    }
    auto& known = profiles_[key];
    if (known == nullptr) {
      entries_ += (length + 1) * (groups.size() + 2);
      if (entries_ > kMostEntries) {
        return "GPU " + std::to_string(name) + " has " + std::to_string(groups.size()) +
               " groups and a list of " + std::to_string(length) +
               " collectives: the tables would need more than " +
               std::to_string(kMostEntries * sizeof(uint32_t) >> 20) + " MiB";
      }
      std::vector<uint32_t> slot_at(key.begin() + static_cast<ptrdiff_t>(counts.size()), key.end());
      if (config_.lists != ListOrder::kGiven) {
        slot_at = Arrange(counts, config_.lists);
      }
      known = MakeProfile(std::move(slot_at), static_cast<uint32_t>(groups.size()));
    }
    if (std::find(c->profiles.begin(), c->profiles.end(), known) == c->profiles.end()) {
      c->profiles.push_back(known);
    }
    c->profile.push_back(known.get());
    (void)u;
    return "";
  }

  const Config& config_;
  Problem* problem_;
  std::vector<GroupSpec> specs_;
  std::map<std::vector<uint32_t>, std::shared_ptr<const Profile>> profiles_;
  uint64_t entries_ = 0;
};

}  // namespace

std::string BuildProblem(const Config& config, bool split, Problem* problem) {
  *problem = Problem();
  return Builder(config, problem).Build(split);
}

}  // namespace gordian::simulator
