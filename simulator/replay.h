// The published program's rounds on CPython's random stream, drawn in its order, number by number,
// but for the turns in which nothing happens: of those the numbers are only looked through. Same
// verdict, and the same place in the stream afterwards, as DenseEngine::Replay().
#ifndef GORDIAN_SIMULATOR_REPLAY_H_
#define GORDIAN_SIMULATOR_REPLAY_H_

#include <cstdint>
#include <vector>

#include "simulator/dense.h"
#include "simulator/mersenne.h"
#include "simulator/progress.h"
#include "simulator/single_window.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Not thread-safe.
class ReplayEngine {
 public:
  // `component` must outlive this: everything as one.
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
  DenseEngine dense_;    // for what the shortcuts do not cover, and where a round ended
  SingleWindow window_;  // the model Single
  Perturbations drawn_;
  // StreamWithSync. A GPU is odd while it waits or has passed something over; the others emit their
  // n-th in sweep base + n, and at_ is not kept up to date for them.
  std::vector<GpuProgress> at_;
  std::vector<int64_t> base_;
  std::vector<uint8_t> waiting_;
  std::vector<uint8_t> odd_;
  int odd_count_ = 0;
  std::vector<uint8_t> held_;
  std::vector<uint32_t> waiters_;
  std::vector<uint32_t> active_;  // that have not emitted everything, ascending
  int64_t sweep_ = 0;
  uint32_t acting_ = 0;
  int64_t next_end_ = 0;  // no GPU has emitted everything before this sweep
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_REPLAY_H_
