// Divides a kernel's work when it carries several operations: a *share* is a channel of one of
// them. Shares are sorted by channel, and within a channel as the operations on the list: sends and
// receives of one communicator, sorted by PlaceOf. Both ends of a transfer have the same place and
// the same number of channels, so ranks that go through their shares upwards meet, however many
// operations and blocks each has. Progress does not depend on the order, only speed does: a block
// that stalls continues with its other shares (help_device.h).
//
// Thread rule: pure functions.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_SHARES_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_SHARES_H_

#include <cstdint>

#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// Operations of one kernel, at most: a send and a receive for each peer.
inline constexpr uint32_t kOfOneKernel = 2 * (kMaxRanks - 1);

struct Share {
  uint32_t operation, channel;
};

// How many shares the operations have, which have channels[i] channels each.
GRT_HD inline uint32_t SharesOf(const uint16_t* channels, uint32_t operations) {
  uint32_t shares = 0;
  for (uint32_t i = 0; i < operations; ++i) shares += channels[i];
  return shares;
}

// The share `number`, which must be less than SharesOf().
GRT_HD inline Share ShareAt(const uint16_t* channels, uint32_t operations, uint32_t number) {
  for (uint32_t base = 0;;) {  // in each turn, channels that all operations wider than `base` have
    uint32_t wider = 0, next = ~0u;
    for (uint32_t i = 0; i < operations; ++i) {
      if (channels[i] <= base) continue;
      ++wider;
      next = channels[i] < next ? channels[i] : next;
    }
    if (number >= wider * (next - base)) {
      number -= wider * (next - base);
      base = next;
      continue;
    }
    uint32_t which = number % wider;
    for (uint32_t i = 0;; ++i) {
      if (channels[i] > base && which-- == 0) return {i, base + number / wider};
    }
  }
}

// How an operation is carried: 0 by LL, 1 by LL128, 2 by bulk. Kernels are for one way.
inline uint32_t WayOf(const Work& w) {
  return (w.flags & kBulk) != 0 ? 2 : (w.flags & kTiles) != 0 ? 1 : 0;
}

// The place of a send or receive among those of its communicator that are carried in one way. Both
// ends of a transfer have the same place, which no other transfer has.
inline uint32_t PlaceOf(const Work& w) {
  const uint32_t peer = (w.order_key % kKeysOfCommunicator - 1) / 2;
  const bool receives = (w.order_key % kKeysOfCommunicator - 1) % 2 != 0;
  return RoundOf(w.order_key, w.rank, w.ranks) * kMaxRanks + (receives ? peer : w.rank);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_SHARES_H_
