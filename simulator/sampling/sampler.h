// Samples rounds of a whole configuration: what each detector says of round r depends only on the
// seed and r.
#ifndef GORDIAN_SIMULATOR_SAMPLING_SAMPLER_H_
#define GORDIAN_SIMULATOR_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/engine/dense.h"
#include "simulator/engine/event.h"
#include "simulator/engine/fixpoint.h"
#include "simulator/engine/perturbation.h"
#include "simulator/engine/single_window.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Sparse: simulates only near perturbations. Event: the same, named for the model StreamWithSync
// with the default detector. Fixpoint: exact, collective by collective. Dense: turn by turn. Replay
// (not of a RoundSampler): dense, on CPython's random stream.
enum class Engine { kSparse, kEvent, kFixpoint, kDense, kReplay };

const char* EngineName(Engine);

struct Wanted {
  bool by_default = true;  // the published detector
  bool exact = true;       // the fixpoint
};

struct SamplerOptions {
  Model model = Model::kSingle;
  double disorder_prob = 0;
  double sync_prob = 0;
  int64_t resource_limit = -1;     // of the published detector; dense engine only
  uint32_t capacity = kUnbounded;  // of the exact detector
  Engine engine = Engine::kSparse;
  Wanted wanted;
};

struct Verdicts {
  bool by_default = false;
  bool exact = false;
};

// Decides about one component, and keeps memory for that. Not thread-safe.
class ComponentJudge {
 public:
  ComponentJudge(const Component& component, const SamplerOptions& options);

  // Indexes *drawn when it needs to.
  Verdicts Judge(Perturbations* drawn, Wanted wanted);
  bool IsExact(Perturbations* drawn) { return Judge(drawn, {false, true}).exact; }
  bool IsDefault(Perturbations* drawn) { return Judge(drawn, {true, false}).by_default; }

  // True if a round in which fewer than two GPUs wait cannot deadlock, whatever it skips.
  bool NeedsTwoWaits() const {
    return c_.common_order && dense_ == nullptr && window_ == nullptr && fixpoint_ == nullptr;
  }

  // True if the waits alone exclude a deadlock, by either detector, whatever the round skips.
  bool IsRuledOut(const Perturbations& drawn) {
    return NeedsTwoWaits() && event_ != nullptr &&
           event_->ChanceOf(drawn) == EventEngine::Chance::kNone;
  }

  const Component& component() const { return c_; }
  const PerturbationSource& source() const { return source_; }

 private:
  bool JudgeExact(Perturbations* drawn);

  const Component& c_;
  const SamplerOptions options_;
  const PerturbationSource source_;
  std::unique_ptr<DenseEngine> dense_;
  std::unique_ptr<EventEngine> event_;
  std::unique_ptr<SingleWindow> window_;
  std::unique_ptr<Fixpoint> fixpoint_;
  std::unique_ptr<SyncGraph> sync_graph_;
};

// Not thread-safe; use one per thread.
class RoundSampler {
 public:
  RoundSampler(const Problem& problem,
               const SamplerOptions& options);  // `problem` must outlive this

  // Ends a round at its first deadlock of each wanted kind.
  Verdicts Round(uint64_t seed, uint64_t round);

  std::vector<std::unique_ptr<ComponentJudge>>& judges() { return judges_; }

 private:
  const Problem& problem_;
  const SamplerOptions options_;
  std::vector<std::unique_ptr<ComponentJudge>> judges_;
  Perturbations drawn_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_SAMPLER_H_
