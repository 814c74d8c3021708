// The published program's rounds on CPython's random stream, in its order, number by number; scans
// over the numbers of turns in which nothing happens. Gives the verdict, and leaves the stream at
// the place, of DenseEngine::Replay().
#ifndef GORDIAN_SIMULATOR_ENGINE_REPLAY_H_
#define GORDIAN_SIMULATOR_ENGINE_REPLAY_H_

#include <cstdint>
#include <vector>

#include "simulator/engine/dense.h"
#include "simulator/engine/progress.h"
#include "simulator/engine/single_window.h"
#include "simulator/sampling/mersenne.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Not thread-safe.
class ReplayEngine {
 public:
  // `component` must outlive this, and be the whole configuration.
  ReplayEngine(const Component& component, DenseOptions options);

  RoundResult Round(double disorder_prob, double sync_prob, PythonRandom* random);

 private:
  bool DrawsNoDeadlock(double disorder_prob, PythonRandom* random);
  RoundResult RoundSync(uint64_t p, uint64_t q, PythonRandom* random);
  void Begin();
  const GpuProgress& Where(uint32_t u);
  bool IsHeldUp(uint32_t u);
  bool FindsDeadlock(uint32_t n);
  bool Turn(uint32_t u, uint64_t p, uint64_t q, PythonRandom* random);
  void DropFinished();

  const Component& c_;
  const DenseOptions options_;
  DenseEngine dense_;    // for cases without a shortcut, and the end of a round
  SingleWindow window_;  // the model Single
  Perturbations drawn_;
  // StreamWithSync. A GPU is odd while it waits or has skipped something; the others emit their
  // n-th in sweep base + n, and at_ is not kept for them.
  std::vector<GpuProgress> at_;
  std::vector<int64_t> base_;
  std::vector<uint8_t> waiting_;
  std::vector<uint8_t> odd_;
  int odd_count_ = 0;
  std::vector<uint8_t> held_;
  std::vector<uint32_t> waiters_;
  std::vector<uint32_t> active_;  // GPUs that have not emitted everything, ascending
  int64_t sweep_ = 0;
  uint32_t acting_ = 0;
  int64_t next_end_ = 0;  // no GPU has emitted everything before this sweep
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_REPLAY_H_
