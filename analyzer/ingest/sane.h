// What no honest collector sends: far above what the largest job needs, far below what would make
// the model allocate without bound. Pure; any thread.
#ifndef GORDIAN_ANALYZER_INGEST_SANE_H_
#define GORDIAN_ANALYZER_INGEST_SANE_H_

#include <cstdint>

#include "proto/ring/state_block.h"

namespace gordian::analyzer {

inline constexpr uint64_t kMaxNumber = 1ull << 56;  // sequences, ordinals, orders
inline constexpr uint64_t kMaxCount = 1ull << 48;   // of calls, or of what was lost, in a process
inline constexpr int32_t kMaxRanks = 1 << 17;
inline constexpr int32_t kMaxDevice = 4096;

constexpr bool IsSane(uint64_t number) { return number <= kMaxNumber; }

// -1 for what is no rank, or no device.
constexpr int32_t SaneRank(int32_t rank) { return rank < 0 || rank >= kMaxRanks ? -1 : rank; }
constexpr int32_t SaneDevice(int32_t device) {
  return device < 0 || device > kMaxDevice ? -1 : device;
}

// Of a communicator; 0, as where it is not known, for what none has.
constexpr int32_t SaneSize(int32_t nranks) { return nranks < 0 || nranks > kMaxRanks ? 0 : nranks; }
// A rank of a communicator of this size, which may be unknown.
constexpr int32_t SaneMember(int32_t rank, int32_t nranks) {
  return nranks > 0 && rank >= nranks ? -1 : SaneRank(rank);
}

constexpr ring::CommState SaneCommState(uint32_t state) {
  return state <= static_cast<uint32_t>(ring::CommState::kFailed)
             ? static_cast<ring::CommState>(state)
             : ring::CommState::kUnknown;
}

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_SANE_H_
