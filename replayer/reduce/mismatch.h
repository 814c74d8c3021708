// What operations whose arguments differ come to on two H200s with NCCL 2.28.9, by their bytes
// (docs/emulator.md). Pure. The emulator keeps a copy of its own (analyzer/model/collective.h says
// why); the tests of both hold them against bench/results/emulator-hardware.json.
#ifndef GORDIAN_REPLAYER_REDUCE_MISMATCH_H_
#define GORDIAN_REPLAYER_REDUCE_MISMATCH_H_

#include <cstdint>

namespace gordian::replayer {

// Below it, members that call different kinds all hang, and so does a receive of too few bytes.
inline constexpr uint64_t kSmallBelowBytes = 256ull << 10;
// Above it, a broadcast's root and a reduce's leaves wait for the other members.
inline constexpr uint64_t kLargeAboveBytes = 64ull << 20;

// Two members call one collective with different bytes. If both stay below the first bound, the
// smaller ends and the larger hangs; if one does, both hang; between the other two both end, with
// wrong data.
inline constexpr uint64_t kUnequalMeetFromBytes = 1792ull << 10;
inline constexpr uint64_t kUnequalEndFromBytes = 2ull << 20;
inline constexpr uint64_t kUnequalEndUpToBytes = 65ull << 20;

// True if a member of `own` bytes ends, where those of all members reach from `least` to `most`.
// `two`: it waits for the data of one other only. Of more members the smaller do not end alone.
constexpr bool EndsUnequal(uint64_t own, uint64_t least, uint64_t most, bool two = true) {
  const bool if_least = two && own == least;
  if (least < kUnequalMeetFromBytes) return most < kUnequalMeetFromBytes && if_least;
  return if_least || (least >= kUnequalEndFromBytes && most <= kUnequalEndUpToBytes);
}

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_MISMATCH_H_
