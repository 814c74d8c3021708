// How the connector memory of one port lies in a segment that all of its members map: boards and
// lanes, by offsets alone. Memory of zeros is a valid first state, so members come in any order
// without waiting.
//
//   board    of (window slot, member): the operation that the member is at; the member writes it
//   counters of (window slot, member, channel): chunks that the member has published, consumed, ...
//   lane     of (window slot, member, channel): kSlots chunks of the member's contributions and
//            kSlots of results. The member writes it, the others read it. The member reads its own
//            contribution where it is, not here.
//
// An operation s uses window slot s mod window, once s - window is done at all members. Counters
// are those of the operation on the board; they are set to 0 before the board tells it.
//
// Source: connectors of each operation's own are DFCCL's (EuroSys '25). Portable C++20.
#ifndef GORDIAN_RUNTIME_CORE_LANES_H_
#define GORDIAN_RUNTIME_CORE_LANES_H_

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "runtime/core/op.h"

namespace gordian::runtime {

inline constexpr uint32_t kMostMembers = 64;  // members fit a 64-bit mask
inline constexpr uint32_t kMostChannels = 16;
inline constexpr uint32_t kSlots = 4;  // chunks in a lane: so far a member may be ahead of another
inline constexpr uint64_t kLine = 128;

struct PortGeometry {
  uint32_t members = 1;
  uint32_t window = 4;
  uint32_t channels = 1;
  uint32_t chunk_bytes = 64 << 10;  // a multiple of kLine
};
static_assert(std::is_trivially_copyable_v<PortGeometry>);

GRT_HD constexpr bool IsValid(const PortGeometry& g) {
  return g.members >= 1 && g.members <= kMostMembers && g.window >= 1 && g.window <= 1024 &&
         g.channels >= 1 && g.channels <= kMostChannels && g.chunk_bytes % kLine == 0 &&
         g.chunk_bytes >= 8 * g.members && g.chunk_bytes <= (64u << 20);
}

enum BoardFlags : uint32_t {
  kBoardInHere = 1,   // `in` is an address that all members can read
  kBoardOutHere = 2,  // `out` is one that all members can write
};

// Zero: no operation yet.
struct alignas(kLine) Board {
  uint64_t seq;  // stored last
  uint64_t signature;
  uint64_t scalar;
  uint64_t in, out;
  uint32_t flags, reserved;
  uint64_t done_seq;  // the last operation of this slot that the member has finished
  // Members for whose next step or finish in this slot a worker of this member sleeps. The sleeper
  // sets bits, fences, and looks once more; who has stepped fences, and takes its bit out and rings
  // if it is set. Hence a bit that has gone was a ring, and of a look and a step one sees the
  // other.
  uint64_t waits_for;
};
static_assert(sizeof(Board) == kLine);

// Chunks of the channel since the operation began; never more than they are of.
struct alignas(kLine) Counters {
  uint64_t published;  // contributions in the lane (or readable in place)
  uint64_t consumed;   // contributions of all members that this one no longer needs
  uint64_t reduced;    // results in the lane (or written in place)
  uint64_t gathered;   // results of all members that this one no longer needs
};
static_assert(sizeof(Counters) == kLine);

// What one member's part of one window slot takes.
GRT_HD constexpr uint64_t LaneBytes(const PortGeometry& g) {
  return uint64_t{2} * kSlots * g.chunk_bytes;
}
GRT_HD constexpr uint64_t BoardsBytes(const PortGeometry& g) {
  return uint64_t{g.window} * g.members * (sizeof(Board) + g.channels * sizeof(Counters));
}
GRT_HD constexpr uint64_t PortBytes(const PortGeometry& g) {
  return BoardsBytes(g) + uint64_t{g.window} * g.members * g.channels * LaneBytes(g);
}

// A port as one process sees it. `base` is aligned to kLine.
class PortView {
 public:
  PortView() = default;
  PortView(void* base, const PortGeometry& geometry)
      : base_(static_cast<unsigned char*>(base)), g_(geometry) {}

  const PortGeometry& geometry() const { return g_; }
  uint32_t SlotOf(uint64_t seq) const { return static_cast<uint32_t>(seq % g_.window); }

  Board& BoardOf(uint32_t slot, uint32_t member) const {
    return *reinterpret_cast<Board*>(base_ + Index(slot, member) * BoardStride());
  }
  Counters& CountersOf(uint32_t slot, uint32_t member, uint32_t channel) const {
    return *reinterpret_cast<Counters*>(base_ + Index(slot, member) * BoardStride() +
                                        sizeof(Board) + channel * sizeof(Counters));
  }
  // Contribution or result chunk `k` of a channel.
  unsigned char* Contribution(uint32_t slot, uint32_t member, uint32_t channel, uint64_t k) const {
    return Lane(slot, member, channel) + (k % kSlots) * g_.chunk_bytes;
  }
  unsigned char* Result(uint32_t slot, uint32_t member, uint32_t channel, uint64_t k) const {
    return Lane(slot, member, channel) + (kSlots + k % kSlots) * g_.chunk_bytes;
  }
  // Where all lanes of a member's part of a window slot begin, from `base`.
  uint64_t LanesOffset(uint32_t slot, uint32_t member) const {
    return BoardsBytes(g_) + Index(slot, member) * g_.channels * LaneBytes(g_);
  }

 private:
  uint64_t Index(uint32_t slot, uint32_t member) const {
    return uint64_t{slot} * g_.members + member;
  }
  uint64_t BoardStride() const { return sizeof(Board) + g_.channels * sizeof(Counters); }
  unsigned char* Lane(uint32_t slot, uint32_t member, uint32_t channel) const {
    return base_ + LanesOffset(slot, member) + channel * LaneBytes(g_);
  }

  unsigned char* base_ = nullptr;
  PortGeometry g_;
};

// All shared words are read and written with these.
inline uint64_t Acquire(const uint64_t& word) {
  // litmus: lanes.acquire
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}
inline void Release(uint64_t& word, uint64_t value) {
  // litmus: lanes.release
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}
inline void StoreRelaxed(uint64_t& word, uint64_t value) {
  // litmus: lanes.store_relaxed
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_relaxed);
}
inline uint64_t LoadRelaxed(const uint64_t& word) {
  // litmus: lanes.load_relaxed
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_relaxed);
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_LANES_H_
