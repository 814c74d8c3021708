// Sizes of operations in a replay. A hang does not need the gigabytes that the job moved; but the
// protocol by which NCCL moves data depends on the size, so what is made smaller stays in the class
// of large operations.
#ifndef GORDIAN_REPLAYER_BUFFERS_H_
#define GORDIAN_REPLAYER_BUFFERS_H_

#include <cstdint>

#include "replayer/schedule.h"

namespace gordian::replayer {

// How NCCL moves data changes with the size; so does what becomes of members that do not agree on
// it (docs/emulator.md).
inline constexpr uint64_t kSmallBelowBytes = 256ull << 10;
inline constexpr uint64_t kLargeAboveBytes = 64ull << 20;

// What the operation's count says, of its type.
uint64_t Bytes(const Op& op);

// Above this NCCL uses its Simple protocol on every path of one node.
inline constexpr uint64_t kMostBytes = 32 << 20;

// Counts of more than `most_bytes` of data become about that, equal ones equal and different ones
// different. Left alone where the verdict is a mismatch: whether that hangs depends on the size.
// Says so in the origin's notes.
void ShrinkBuffers(Schedule* schedule, uint64_t most_bytes = kMostBytes);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_BUFFERS_H_
