// The published simulation (section 2.4 of arXiv 2303.06324 and its public code), turn by turn:
// GPUs act in their order, and each turn draws its coins. Slow and plain; on CPython's random
// stream it gives the published program's verdict of every round.
#ifndef GORDIAN_SIMULATOR_ENGINE_DENSE_H_
#define GORDIAN_SIMULATOR_ENGINE_DENSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/config.h"
#include "simulator/engine/perturbation.h"
#include "simulator/engine/progress.h"
#include "simulator/sampling/mersenne.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Which finding ends a round. StreamWithSync checks when a GPU begins to wait: kIntersection, the
// published program's "default": it holds a collective that one waiting GPU lacks, and lacks one
// that another holds. kRing: waiting GPUs form a cycle. The model Single has only its own.
enum class Detector { kIntersection, kRing };

struct RoundResult {
  bool deadlock = false;
  bool by_resource = false;  // by the resource limit
  uint32_t sweep = 0;        // the sweep in which the round ended
  uint32_t gpu = kNobody;    // the GPU whose turn ended it
};

struct DenseOptions {
  Model model = Model::kSingle;
  Detector detector = Detector::kIntersection;
  int64_t resource_limit = -1;
};

// Keeps a round's memory for the next one. Not thread-safe.
class DenseEngine {
 public:
  // `component` must outlive this.
  DenseEngine(const Component& component, DenseOptions options);

  // Runs one round on CPython's stream, drawing in the published program's order.
  RoundResult Replay(double disorder_prob, double sync_prob, PythonRandom* random);

  // Runs one round with the coins on `tape`, each as random() would return it. Sets `*used` (may be
  // null) to the number read; after the tape's end every coin shows nothing (1).
  RoundResult RunTape(double disorder_prob, double sync_prob, const std::vector<double>& tape,
                      size_t* used = nullptr);

  // Runs one round with these perturbations (indexed).
  RoundResult Run(const Perturbations& drawn);

  // The model Single without skips: true if after every sweep no group is half way and nothing was
  // lost. Then a round with few skips need only be simulated near them.
  bool IsLevel();

  // Which GPUs waited at the round's end, and how far each was.
  const std::vector<uint8_t>& waiting() const { return waiting_; }
  const std::vector<GpuProgress>& progress() const { return at_; }

 private:
  friend class SingleWindow;
  template <class Coins>
  RoundResult RunSync(Coins coins);
  template <class Coins>
  RoundResult RunSingle(Coins coins);

  void Reset();
  void DropFinished();
  bool FindsDeadlock(uint32_t n);
  bool OverLimit(uint32_t u, uint32_t position);
  // Hands the collective at `position` of GPU u to its group. Returns true if the group holds
  // another.
  bool Submit(uint32_t u, uint32_t position);

  const Component& c_;
  const DenseOptions options_;
  std::vector<GpuProgress> at_;
  std::vector<uint32_t> active_;
  std::vector<uint8_t> waiting_;
  std::vector<uint32_t> waiters_;
  // StreamWithSync with a resource limit.
  std::vector<uint32_t> arrived_;  // [collective]
  std::vector<uint32_t> held_;     // [gpu]: emitted and not complete
  // Single: for each group, what its members have submitted since it was last cleared.
  struct GroupState {
    uint32_t cleared = 0;  // how often it was cleared
    uint32_t in = 0;
    uint32_t current = 0;
  };
  std::vector<GroupState> group_state_;
  std::vector<uint32_t> submitted_;  // [slot of gpu]: GroupState::cleared + 1 if submitted
  uint32_t half_way_ = 0;            // groups with some members submitted
  uint64_t lost_ = 0;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_DENSE_H_
