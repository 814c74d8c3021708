// What the blocks of one kernel with several operations carry: a *share* is a channel of one of its
// operations. Shares have an order, by channel, and within a channel as the operations on the list.
// Of one kernel these are sends and receives of one communicator, in the order of PlaceOf, which
// the two ends of a transfer share, as they do the number of its channels. So ranks that go through
// their shares upwards meet, however many operations and blocks each of them has. The order is for
// speed alone: a block that stalls goes on with its other shares (help_device.h), so progress does
// not depend on it.
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

// How many shares operations with so many channels have.
GRT_HD inline uint32_t SharesOf(const uint16_t* channels, uint32_t operations) {
  uint32_t shares = 0;
  for (uint32_t i = 0; i < operations; ++i) shares += channels[i];
  return shares;
}

// The share with that number; there is one.
GRT_HD inline Share ShareAt(const uint16_t* channels, uint32_t operations, uint32_t number) {
  for (uint32_t base = 0;;) {  // channels that all have who have more than `base`
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
