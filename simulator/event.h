// The published simulation of StreamWithSync with its "default" detector, without the turns in which
// nothing happens: between its waits and skips a GPU emits one collective a sweep, so that where it is at
// sweep t is t less a constant. Same verdict as the turn-by-turn engine on the same perturbations.
#ifndef GORDIAN_SIMULATOR_EVENT_H_
#define GORDIAN_SIMULATOR_EVENT_H_

#include <cstdint>
#include <vector>

#include "simulator/perturbation.h"
#include "simulator/progress.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Of keys one per GPU, the smallest. A tree of winners.
class KeyTree {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  void Reset(uint32_t keys);
  void Set(uint32_t at, uint64_t key) {
    uint32_t node = leaves_ + at;
    key_[node] = key;
    while (node > 1) {
      const uint64_t winner = std::min(key_[node], key_[node ^ 1]);
      node >>= 1;
      if (key_[node] == winner) {
        break;
      }
      key_[node] = winner;
    }
  }
  uint64_t Least() const { return key_[1]; }
  uint64_t Get(uint32_t at) const { return key_[leaves_ + at]; }

 private:
  uint32_t leaves_ = 0;
  std::vector<uint64_t> key_;
};

// Not thread-safe.
class EventEngine {
 public:
  explicit EventEngine(const Component& component);  // `component` must outlive this

  // Whether the default detector calls the round a deadlock. `drawn` indexed.
  bool Run(const Perturbations& drawn);

  // False: it certainly does not. Cheap where few GPUs wait; `drawn` needs no index.
  bool MayClash(const Perturbations& drawn);

  uint32_t sweep() const { return sweep_; }  // of the verdict
  uint32_t gpu() const { return acting_; }

 private:
  enum class Mode : uint8_t { kRegular, kOutOfOrder, kWaiting };

  bool IsHeldUp(uint32_t u) const;
  bool Turn(uint32_t u, const Perturbations& drawn);
  bool BeginsToWait(uint32_t u);
  void ScheduleRunning(uint32_t u, const Perturbations& drawn);
  uint64_t PredictRelease(uint32_t u) const;
  void PredictNeighbours(uint32_t u);
  void Schedule(uint32_t u, uint64_t key);

  const Component& c_;
  uint32_t shift_ = 0;  // of the sweep in a key; the GPU is in the bits below
  KeyTree keys_;
  // Of GPUs that are not regular; where those are follows from base_ and the clock.
  std::vector<GpuProgress> at_;
  std::vector<Mode> mode_;
  std::vector<int64_t> base_;  // a regular GPU has emitted sweep - base before its turn in it
  std::vector<uint8_t> waiting_;
  std::vector<uint32_t> waiters_;
  std::vector<uint32_t> next_sync_;
  std::vector<uint32_t> taken_;  // of the times of the next sync
  std::vector<uint32_t> next_skip_;
  uint32_t sweep_ = 0;
  uint32_t acting_ = 0;
  // Who shares a group with whom; empty when there are too many GPUs.
  std::vector<uint64_t> neighbours_;
  uint32_t row_ = 0;  // words of a row
  std::vector<uint32_t> with_sync_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_EVENT_H_
