// Carries a channel of a bulk operation in the operation's own kernel. In each turn it sends and
// announces the same as StepBulk, but waits less: its warps check different conditions at once, and
// while one warp waits behind a fence for its stores to peers, the others work in the own memory:
//
//   turn t:  scatter chunk t;  two-phase: combine chunk t - W and hand it on;
//            announce both  ||  take: gather chunk t - 2W, of one-phase operations combine or place
//            chunk t - W
//
// Thread rule: as ll_device.h. Block: as there, and
//   bool* Straight(phase)   for each of Targets() (0) and SumTargets() (1): whether the address is
//                           in the peer's output
//   Rest()                  all warps but the first, as a block with a barrier of its own; a block
//                           with one thread gives that one
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_RUN_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_RUN_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/protocol/bulk_device.h"

namespace gordian::runtime::cuda {

// Carries the channel from the beginning of turn `turn` to its end, and returns true. When data has
// not arrived, announces everything and calls wait(); if that returns false, returns false with the
// channel unfinished.
template <typename T, uint32_t kRanks, typename Block, typename Wait>
GRT_HD inline bool RunBulk(Block& b, const Work& w, uint32_t channel, uint32_t turn, Wait&& wait) {
  // Which warp checks what; warp 0 announces.
  enum : uint32_t {
    kGivesBack = 1,
    kFindsTargets = 2,
    kFindsSumTargets = 3,
    kSeesScattered = 4,
    kSeesSums = 5
  };
  Bulk bulk = BulkOf(w, channel);
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint32_t turns = TurnsOf(w, bulk);
  if (turn == 0 && turns != 0) {
    TellDoing(b, w, channel, bulk.doing);
    while (!b.All(MayBegin(b, w, channel, *StateAt(w, channel)))) {
      if (!wait()) return false;
    }
    TellOffer(b, w, channel, bulk);
  }
  const uint32_t behind = shards ? 2 * kLookAhead : kLookAhead;
  for (; turn < turns; ++turn) {
    if (turn < bulk.chunks && w.send1 != 0) {
      while (!b.All(FindTargets(b, w, channel, bulk, 0, w.send1, turn, kFindsTargets))) {
        if (!wait()) return false;
      }
      ScatterChunk<kRanks>(b, w, bulk, turn);
      bulk.scattered = turn + 1;
    }
    const uint32_t summed = turn - kLookAhead, take = turn - behind;
    const bool sums = shards && turn >= kLookAhead && summed < bulk.chunks;
    const bool takes = turn >= behind && take < bulk.chunks;
    for (;;) {
      bool ready = true;
      if (sums) {
        ready = FindTargets(b, w, channel, bulk, 1, w.send2, summed, kFindsSumTargets);
        ready = HasScattered(b, w, channel, bulk, summed, kSeesScattered) && ready;
      }
      if (takes) {
        ready = (shards ? HasSums(b, w, channel, bulk, take, kSeesSums)
                        : HasScattered(b, w, channel, bulk, take, kSeesScattered)) &&
                ready;
      }
      if (b.All(ready)) break;
      Announce(b, w, channel, &bulk, 0);
      if (!wait()) return false;
    }
    if (sums) {
      CombineChunk<T, kRanks>(b, w, channel, bulk, summed);
      b.Sync();
      GiveBack(b, w, channel, bulk, 0, summed, kGivesBack);
    }
    Announce(b, w, channel, &bulk, sums ? summed + 1 : 0);
    if (!takes || (b.Warps() > 1 && b.Warp() == 0)) continue;
    auto&& rest = b.Rest();
    if (shards) {
      GatherChunk<kRanks>(rest, w, channel, bulk, take);
    } else {
      CombineChunk<T, kRanks>(rest, w, channel, bulk, take);
    }
    if (shards ? ArrivesDirect(w) : PlacesDirect(w)) continue;
    rest.Sync();
    GiveBack(b, w, channel, bulk, shards ? 1 : 0, take, kGivesBack);
  }
  FinishBulk(b, w, channel, bulk);
  return true;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_RUN_DEVICE_H_
