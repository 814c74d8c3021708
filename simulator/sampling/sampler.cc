#include "simulator/sampling/sampler.h"

namespace gordian::simulator {

const char* EngineName(Engine engine) {
  switch (engine) {
    case Engine::kSparse:
      return "sparse";
    case Engine::kEvent:
      return "event";
    case Engine::kFixpoint:
      return "fixpoint";
    case Engine::kDense:
      return "dense";
    case Engine::kReplay:
      return "replay";
  }
  return "";
}

ComponentJudge::ComponentJudge(const Component& component, const SamplerOptions& options)
    : c_(component),
      options_(options),
      source_(component, options.disorder_prob,
              options.model == Model::kSingle ? 0 : options.sync_prob) {
  const bool single = options.model == Model::kSingle;
  if (options.wanted.by_default) {
    if (options.engine == Engine::kDense || (!single && options.resource_limit > 0)) {
      dense_ = std::make_unique<DenseEngine>(
          c_, DenseOptions{options.model, Detector::kIntersection, options.resource_limit});
    } else if (single) {
      window_ = std::make_unique<SingleWindow>(c_);
    } else {
      event_ = std::make_unique<EventEngine>(c_);
    }
  }
  if (options.wanted.exact) {
    if (single || options.capacity != kUnbounded || options.engine == Engine::kFixpoint) {
      fixpoint_ = std::make_unique<Fixpoint>(c_, single ? 1 : options.capacity);
    } else {
      sync_graph_ = std::make_unique<SyncGraph>(c_);
    }
  }
}

bool ComponentJudge::JudgeExact(Perturbations* drawn) {
  if (c_.common_order && drawn->skips.empty()) {
    return false;  // all GPUs can start the first incomplete collective
  }
  if (sync_graph_ == nullptr) {
    drawn->Index(c_.gpus);
    return fixpoint_->Deadlocks(*drawn);
  }
  if (drawn->syncs.empty() || (c_.common_order && !WaitsWhileSkipping(*drawn))) {
    return false;
  }
  drawn->Index(c_.gpus);
  return sync_graph_->Deadlocks(*drawn);
}

Verdicts ComponentJudge::Judge(Perturbations* drawn, Wanted wanted) {
  Verdicts verdicts;
  if (wanted.by_default) {
    if (dense_ != nullptr) {
      drawn->Index(c_.gpus);
      verdicts.by_default = dense_->Run(*drawn).deadlock;
    } else if (window_ != nullptr) {
      if (!window_->is_level() || !drawn->skips.empty()) {
        drawn->Index(c_.gpus);
        verdicts.by_default = window_->Run(*drawn);
      }
    } else if (event_->MayClash(*drawn)) {
      verdicts.by_default = event_->Run(*drawn);
    }
  }
  if (wanted.exact) {
    // Every deadlock is one by default too (docs/simulation.md), so the event engine's "no" is
    // final.
    const bool ruled_out = wanted.by_default && event_ != nullptr && sync_graph_ != nullptr &&
                           c_.common_order && !verdicts.by_default;
    verdicts.exact = !ruled_out && JudgeExact(drawn);
  }
  return verdicts;
}

RoundSampler::RoundSampler(const Problem& problem, const SamplerOptions& options)
    : problem_(problem), options_(options) {
  for (const Component& component : problem.components) {
    judges_.push_back(std::make_unique<ComponentJudge>(component, options));
  }
}

Verdicts RoundSampler::Round(uint64_t seed, uint64_t round) {
  Verdicts verdicts;
  uint64_t part = 0;
  for (const auto& judge : judges_) {
    for (uint64_t copy = 0; copy < judge->component().copies; ++copy, ++part) {
      judge->source().DrawSyncs(seed, round, part, &drawn_);
      if (judge->NeedsTwoWaits() &&
          (drawn_.syncs.empty() || drawn_.syncs.front().gpu == drawn_.syncs.back().gpu)) {
        continue;
      }
      if (judge->IsRuledOut(drawn_)) {
        continue;
      }
      judge->source().DrawSkips(seed, round, part, &drawn_);
      const Wanted wanted{options_.wanted.by_default && !verdicts.by_default,
                          options_.wanted.exact && !verdicts.exact};
      const Verdicts here = judge->Judge(&drawn_, wanted);
      verdicts.by_default |= here.by_default;
      verdicts.exact |= here.exact;
      if ((verdicts.by_default || !options_.wanted.by_default) &&
          (verdicts.exact || !options_.wanted.exact)) {
        return verdicts;
      }
    }
  }
  return verdicts;
}

}  // namespace gordian::simulator
