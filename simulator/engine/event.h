// The published simulation of StreamWithSync with its "default" detector, without the turns in
// which nothing happens. Between its waits a GPU emits one collective per sweep, so at sweep t it
// has emitted t less a constant, and the skips say which ones. The engine looks only at waits, when
// they begin and when they may end; a skipped collective matters only while it is missing. Gives
// the turn-by-turn engine's verdict on the same perturbations.
#ifndef GORDIAN_SIMULATOR_ENGINE_EVENT_H_
#define GORDIAN_SIMULATOR_ENGINE_EVENT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulator/engine/perturbation.h"
#include "simulator/engine/progress.h"
#include "simulator/topology.h"

namespace gordian::simulator {

// Finds the smallest of one key per GPU: a tree of winners.
class KeyTree {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  explicit KeyTree(uint32_t keys);  // all of them kNever
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

 private:
  uint32_t leaves_ = 0;
  std::vector<uint64_t> key_;
};

// Not thread-safe.
class EventEngine {
 public:
  explicit EventEngine(const Component& component);  // `component` must outlive this

  // True if the default detector reports a deadlock. `drawn` needs no index.
  bool Run(const Perturbations& drawn);

  // Whether the round can be a deadlock. Cheap when few GPUs wait; needs no index. kNone: the waits
  // alone exclude it, whatever is skipped; kOutOfOrder: only if some GPU waits before a collective
  // that it skipped; kMaybe: unknown.
  enum class Chance : uint8_t { kNone, kOutOfOrder, kMaybe };
  Chance ChanceOf(const Perturbations& drawn);
  bool MayClash(const Perturbations& drawn) {
    const Chance chance = ChanceOf(drawn);
    return chance == Chance::kMaybe || (chance == Chance::kOutOfOrder && WaitsWhileSkipping(drawn));
  }

  uint32_t sweep() const { return sweep_; }  // the sweep of the verdict
  uint32_t gpu() const { return acting_; }

 private:
  // What other GPUs ask about a GPU. It emits its n-th collective in sweep base + n unless it
  // waits; up to `in_order_to` that is the n-th of its list. in_order_to is 0 while it waits or has
  // skipped something.
  struct Pace {
    int64_t base = 0;
    uint32_t in_order_to = kAlways;
    uint32_t waits_at = kRuns;  // how many it had emitted when it began to wait
  };
  struct Course {
    uint32_t next_sync = 0;
    uint32_t sync_end = 0;
    uint32_t taken = 0;  // turns already taken of the next sync
    uint32_t next_skip = 0;
    uint32_t skip_end = 0;
  };
  struct Peer {
    const uint32_t* positions;  // where its list has the group's collectives
    uint32_t gpu;
    uint32_t slot;
  };
  static constexpr uint32_t kAlways = UINT32_MAX;
  static constexpr uint32_t kRuns = UINT32_MAX;
  static constexpr int64_t kNoTurn = INT64_MAX;

  void Begin();
  bool Waits(uint32_t u) const { return pace_[u].waits_at != kRuns; }
  uint32_t Emitted(uint32_t u) const;
  const GpuProgress& Where(uint32_t u);
  void CatchUp(uint32_t u, uint32_t n);
  uint32_t LastOf(uint32_t u, uint32_t n, uint32_t slot) const;
  int64_t FreeFrom(uint32_t u, uint32_t n);
  bool IsHeldUp(uint32_t u);
  bool Turn(uint32_t u);
  bool BeginsToWait(uint32_t u, uint32_t n);
  void ScheduleWait(uint32_t u);
  void ScheduleRelease(uint32_t u, int64_t sweep);
  void AskNeighbours(uint32_t u);

  const Component& c_;
  uint32_t shift_ = 0;  // bits of a key below the sweep, which hold the GPU
  KeyTree keys_;        // turns in which a GPU waits, or may run again
  std::vector<Pace> pace_;
  std::vector<Course> course_;
  std::vector<GpuProgress> at_;  // each as of its last use
  std::vector<uint32_t> waiters_;
  std::vector<uint32_t> touched_;  // GPUs that differ from one without waits and skips
  std::vector<Peer> peers_;        // parallel to the component's members
  const Perturbations* drawn_ = nullptr;
  uint32_t sweep_ = 0;
  uint32_t acting_ = 0;
  // Which GPUs share a group; empty when there are too many GPUs.
  std::vector<uint64_t> neighbours_;
  uint32_t row_ = 0;  // words of a row
  std::vector<uint32_t> with_sync_;
};

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ENGINE_EVENT_H_
