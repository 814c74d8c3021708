#include "testing/simulator/twins.h"

#include <algorithm>

#include "simulator/engine/dense.h"
#include "simulator/engine/event.h"
#include "simulator/engine/fixpoint.h"
#include "simulator/engine/single_window.h"

namespace gordian::simulator {

Sequences SequencesOf(const Component& c, const Perturbations& drawn) {
  Sequences sequences(c.gpus);
  for (uint32_t u = 0; u < c.gpus; ++u) {
    std::vector<int> left;
    for (uint32_t at = 0; at < c.Length(u); ++at) {
      left.push_back(static_cast<int>(c.Collective(u, at)));
    }
    for (uint32_t n = 0; !left.empty(); ++n) {
      for (const Mark& mark : drawn.syncs) {
        if (mark.gpu == u && mark.at == n) {
          sequences[u].insert(sequences[u].end(), mark.times, kWait);
        }
      }
      uint32_t skip = 0;
      for (const Mark& mark : drawn.skips) {
        skip = mark.gpu == u && mark.at == n ? mark.times : skip;
      }
      sequences[u].push_back(left.at(skip));
      left.erase(left.begin() + skip);
    }
  }
  return sequences;
}

std::vector<GroupSpec> GroupsOf(const Component& c) {
  std::vector<GroupSpec> groups(c.groups);
  for (uint32_t g = 0; g < c.groups; ++g) {
    groups[g].count = c.count[g];
    for (const Member* m = c.MembersBegin(g); m != c.MembersEnd(g); ++m) {
      groups[g].gpus.push_back(m->gpu);
    }
  }
  return groups;
}

Config RandomJob(uint64_t number, uint32_t gpus, uint32_t collectives) {
  CounterStream random(number, 0, 0, Purpose::kPlaces);
  Config config;
  config.model = Model::kStreamWithSync;
  config.gpu_num = 2 + static_cast<int64_t>(random.Below(gpus - 1));
  for (uint32_t left = collectives; left > 0 && (config.groups.empty() || random.Below(4) > 0);) {
    GroupSpec group;
    for (uint32_t gpu = 0; gpu < config.gpu_num; ++gpu) {
      if (random.Below(2) == 0) {
        group.gpus.push_back(gpu);
      }
    }
    if (group.gpus.size() < 2) {
      continue;
    }
    group.count = 1 + static_cast<uint32_t>(random.Below(std::min(left, 3u)));
    left -= group.count;
    config.groups.push_back(group);
  }
  // Who is in no group joins one.
  for (uint32_t gpu = 0; gpu < config.gpu_num; ++gpu) {
    const auto has = [gpu](const GroupSpec& group) {
      return std::find(group.gpus.begin(), group.gpus.end(), gpu) != group.gpus.end();
    };
    if (std::none_of(config.groups.begin(), config.groups.end(), has)) {
      config.groups[random.Below(config.groups.size())].gpus.push_back(gpu);
    }
  }
  return config;
}

namespace {

void Differ(TwinCounts* counts, const std::string& what, int64_t round) {
  if (counts->differences++ == 0) {
    counts->first = what + " in round " + std::to_string(round);
  }
}

}  // namespace

TwinCounts CompareSync(const Config& config, uint64_t seed, int64_t rounds, bool naive) {
  TwinCounts counts;
  Problem problem;
  if (!BuildProblem(config, true, &problem).empty()) {
    counts.differences = 1;
    counts.first = "the configuration could not be built";
    return counts;
  }
  for (const Component& c : problem.components) {
    const PerturbationSource source(c, config.disorder_prob, config.sync_prob);
    DenseEngine turns(c, {config.model, Detector::kIntersection, -1});
    DenseEngine ring(c, {config.model, Detector::kRing, -1});
    EventEngine event(c);
    Fixpoint fixpoint(c, kUnbounded);
    SyncGraph waits(c);
    const std::vector<GroupSpec> groups = GroupsOf(c);
    Perturbations drawn;
    for (int64_t r = 0; r < rounds; ++r) {
      source.Draw(seed, static_cast<uint64_t>(r), 0, &drawn);
      drawn.Index(c.gpus);
      const bool by_turns = turns.Run(drawn).deadlock;
      const bool exact = fixpoint.Deadlocks(drawn);
      ++counts.rounds;
      counts.by_default += by_turns ? 1 : 0;
      counts.exact += exact ? 1 : 0;
      if (event.Run(drawn) != by_turns) {
        Differ(&counts, "event engine and turns", r);
      }
      if (by_turns && !event.MayClash(drawn)) {
        Differ(&counts, "a clash ruled out", r);
      }
      if (ring.Run(drawn).deadlock != exact) {
        Differ(&counts, "ring and fixpoint", r);
      }
      if (waits.Deadlocks(drawn) != exact) {
        Differ(&counts, "waits only and fixpoint", r);
      }
      if (exact && !(by_turns && WaitsWhileSkipping(drawn))) {
        Differ(&counts, "a deadlock ruled out", r);
      }
      if (naive) {
        const Sequences sequences = SequencesOf(c, drawn);
        if (NaiveDeadlock(groups, sequences, 0) != exact) {
          Differ(&counts, "naive and fixpoint", r);
        }
        if (NaiveTurns(groups, sequences, false) != by_turns) {
          Differ(&counts, "naive and turns", r);
        }
        if (NaiveTurns(groups, sequences, true) != exact) {
          Differ(&counts, "naive ring and fixpoint", r);
        }
        const auto capacity = static_cast<uint32_t>(1 + r % 3);
        if (NaiveDeadlock(groups, sequences, static_cast<int>(capacity)) !=
            Fixpoint(c, capacity).Deadlocks(drawn)) {
          Differ(&counts, "naive and fixpoint with a capacity", r);
        }
      }
    }
  }
  return counts;
}

TwinCounts CompareSingle(const Config& config, uint64_t seed, int64_t rounds, bool naive) {
  TwinCounts counts;
  Problem problem;
  if (!BuildProblem(config, true, &problem).empty()) {
    counts.differences = 1;
    counts.first = "the configuration could not be built";
    return counts;
  }
  for (const Component& c : problem.components) {
    const PerturbationSource source(c, config.disorder_prob, 0);
    DenseEngine turns(c, {Model::kSingle, Detector::kIntersection, -1});
    SingleWindow window(c);
    Fixpoint fixpoint(c, 1);
    const std::vector<GroupSpec> groups = GroupsOf(c);
    Perturbations drawn;
    for (int64_t r = 0; r < rounds; ++r) {
      source.Draw(seed, static_cast<uint64_t>(r), 0, &drawn);
      drawn.Index(c.gpus);
      const bool by_turns = turns.Run(drawn).deadlock;
      const bool exact = fixpoint.Deadlocks(drawn);
      ++counts.rounds;
      counts.by_default += by_turns ? 1 : 0;
      counts.exact += exact ? 1 : 0;
      if (window.Run(drawn) != by_turns) {
        Differ(&counts, "windows and turns", r);
      }
      if (naive && NaiveDeadlock(groups, SequencesOf(c, drawn), 1) != exact) {
        Differ(&counts, "naive and fixpoint", r);
      }
    }
  }
  return counts;
}

}  // namespace gordian::simulator
