// The published simulation (section 2.4 of arXiv 2303.06324 and its public code), turn by turn:
// GPUs take turns in their order, each turn draws its coins. Slow and plain; run on CPython's
// random stream it gives the published program's verdict of every round.
#ifndef GORDIAN_SIMULATOR_DENSE_H_
#define GORDIAN_SIMULATOR_DENSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/config.h"
#include "simulator/mersenne.h"
#include "simulator/perturbation.h"
#include "simulator/progress.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Which finding ends a round. Of StreamWithSync, looked for when a GPU begins to wait:
// kIntersection, the one that the published program uses ("default"): it holds what one waiting GPU
// lacks and lacks what another holds. kRing: waiting GPUs form a circle. The model Single has but
// its own.
enum class Detector { kIntersection, kRing };

struct RoundResult {
  bool deadlock = false;
  bool by_resource = false;  // by the resource limit
  uint32_t sweep = 0;        // in which the round ended
  uint32_t gpu = kNobody;    // whose turn ended it
};

struct DenseOptions {
  Model model = Model::kSingle;
  Detector detector = Detector::kIntersection;
  int64_t resource_limit = -1;
};

// Memory of a round, kept for the next. Not thread-safe.
class DenseEngine {
 public:
  // `component` must outlive this.
  DenseEngine(const Component& component, DenseOptions options);

  // One round on CPython's stream, in the published program's order of draws.
  RoundResult Replay(double disorder_prob, double sync_prob, PythonRandom* random);

  // One round whose coins are `tape`, each the number that random() would return. `*used` (may be
  // null) gets how many were read; a tape that is too short ends with coins that show nothing (1).
  RoundResult RunTape(double disorder_prob, double sync_prob, const std::vector<double>& tape,
                      size_t* used = nullptr);

  // One round with these perturbations (indexed).
  RoundResult Run(const Perturbations& drawn);

  // The model Single without any skip: whether after every sweep no group is half way, and nothing
  // was lost. Then the rounds of a few skips need only be looked at near them.
  bool IsLevel();

  // Who waited when the round ended, and how far everybody was.
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
  // Hands the collective at `position` of GPU u to its group. True: two different ones are there.
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
  // Single: of each group, what its members have submitted since it was last cleared.
  struct GroupState {
    uint32_t cleared = 0;  // how often
    uint32_t in = 0;
    uint32_t current = 0;
  };
  std::vector<GroupState> group_state_;
  std::vector<uint32_t> submitted_;  // [slot of gpu]: GroupState::cleared + 1 when it is in
  uint32_t half_way_ = 0;            // groups with a member in
  uint64_t lost_ = 0;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_DENSE_H_
