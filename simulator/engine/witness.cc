#include "simulator/engine/witness.h"

#include <nlohmann/json.hpp>

namespace gordian::simulator {
namespace {

Witness Write(const Component& c, const Perturbations& drawn, bool deadlock, uint64_t round) {
  Witness witness;
  witness.deadlock = deadlock;
  witness.round = round;
  witness.gpus = c.gpu_names;
  for (uint32_t g = 0; g < c.groups; ++g) {
    witness.groups.emplace_back();
    for (const Member* m = c.MembersBegin(g); m != c.MembersEnd(g); ++m) {
      witness.groups.back().push_back(m->gpu);
    }
    witness.collectives.insert(witness.collectives.end(), c.count[g], g);
  }
  witness.sequences.resize(c.gpus);
  for (uint32_t u = 0; u < c.gpus; ++u) {
    GpuProgress at;
    uint32_t sync = drawn.sync_begin[u];
    uint32_t skip = drawn.skip_begin[u];
    for (uint32_t n = 0; n < c.Length(u); ++n) {
      if (sync != drawn.sync_begin[u + 1] && drawn.syncs[sync].at == n) {
        // A second wait right after the first has nothing to wait for.
        witness.sequences[u].push_back(kWaitEntry);
        ++sync;
      }
      const bool skips = skip != drawn.skip_begin[u + 1] && drawn.skips[skip].at == n;
      witness.sequences[u].push_back(
          c.Collective(u, at.Emit(skips ? drawn.skips[skip++].times : 0)));
    }
  }
  return witness;
}

}  // namespace

std::vector<Witness> FindWitnesses(const Config& config, const SimulateOptions& options,
                                   int64_t each, int64_t rounds) {
  std::vector<Witness> found;
  Problem problem;
  if (!BuildProblem(config, true, &problem).empty()) {
    return found;
  }
  SimulateOptions both = options;
  both.engine.reset();
  both.wanted = {true, true};
  const SamplerOptions sampling = SamplerOf(config, both);
  RoundSampler sampler(problem, sampling);
  const bool sync = config.model == Model::kStreamWithSync;
  int64_t deadlocks = 0;
  int64_t others = sync ? 0 : each;
  Perturbations drawn;
  for (int64_t r = 0; r < rounds && (deadlocks < each || others < each); ++r) {
    if (options.control.stop && r % 256 == 0 && options.control.stop()) {
      break;
    }
    uint64_t part = 0;
    bool done = false;
    for (const auto& judge : sampler.judges()) {
      for (uint64_t copy = 0; copy < judge->component().copies && !done; ++copy, ++part) {
        judge->source().Draw(options.seed, static_cast<uint64_t>(r), part, &drawn);
        const Verdicts verdicts = judge->Judge(&drawn, sampling.wanted);
        done = verdicts.exact || (sync && verdicts.by_default);
        if (done && (verdicts.exact ? deadlocks : others) < each) {
          ++(verdicts.exact ? deadlocks : others);
          drawn.Index(judge->component().gpus);
          found.push_back(
              Write(judge->component(), drawn, verdicts.exact, static_cast<uint64_t>(r)));
        }
      }
    }
  }
  const bool can_force =
      sync && sampling.capacity == kUnbounded && config.sync_prob > 0 && config.disorder_prob > 0;
  for (uint64_t s = 0; can_force && deadlocks < each && s < static_cast<uint64_t>(100 * each);
       ++s) {
    size_t component = 0;
    if (!DrawForcedPair(problem, sampling, options.seed, s, &component, &drawn)) {
      break;
    }
    ComponentJudge& judge = *sampler.judges()[component];
    if (judge.IsExact(&drawn)) {
      ++deadlocks;
      drawn.Index(judge.component().gpus);
      found.push_back(Write(judge.component(), drawn, true, s));
      found.back().forced = true;
    }
  }
  return found;
}

nlohmann::json WitnessToJson(const Witness& witness) {
  nlohmann::json out;
  out["kind"] = witness.deadlock ? "deadlock" : "false_positive";
  out["round"] = witness.round;
  out["forced"] = witness.forced;
  out["gpus"] = witness.gpus;
  out["groups"] = witness.groups;
  out["collectives"] = witness.collectives;
  out["sequences"] = witness.sequences;
  return out;
}

}  // namespace gordian::simulator
