// Reduces the sizes of operations in a replay. A hang does not need the gigabytes that the job
// moved; but NCCL chooses its protocol by size, so a reduced operation stays in the class of large
// ones.
#ifndef GORDIAN_REPLAYER_RECORD_BUFFERS_H_
#define GORDIAN_REPLAYER_RECORD_BUFFERS_H_

#include <cstdint>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

// The bytes of the operation's count and type.
uint64_t Bytes(const Op& op);

// Above this NCCL uses its Simple protocol on every path of one node.
inline constexpr uint64_t kMostBytes = 32 << 20;

// Reduces counts of more than `most_bytes` of data to about that; equal counts stay equal,
// different ones different. Leaves mismatches alone, since their hang depends on the size. Adds a
// note to the origin.
void ShrinkBuffers(Schedule* schedule, uint64_t most_bytes = kMostBytes);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_BUFFERS_H_
