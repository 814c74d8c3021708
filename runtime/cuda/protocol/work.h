// Describes one operation of one rank for its kernel (Work), and the connector memory in each
// member's region through which members carry it.
//
// A port is an ordered sequence of operations with connector memory of its own: port 0 of a
// communicator carries its collectives, port 1 its sends and receives (one sequence for each
// ordered pair). Every member has the same layout at the same offset of its region, so an address
// in another member's memory is that member's base plus an offset known here.
//
// Members that disagree about an operation never accept each other's data: its signature is part of
// every line's flags and of offers, and lies beside the first staged chunk. So they write no output
// and wait, and a carrier that stalls reads in `doing` which operations the others are at
// (help_device.h).
//
// Sizes in bytes unless a name says lines, tiles or chunks. Thread rule: plain data and pure
// functions. The host computes Work; PlanWork depends only on arguments that are equal on all
// members, and on the rank. Ownership: pointers lead to memory of the caller.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_WORK_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_WORK_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/core/elements.h"
#include "runtime/core/op.h"
#include "runtime/cuda/protocol/memory_device.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kMaxRanks = 8;
inline constexpr uint32_t kMaxChannels = 128;  // of one operation: the blocks of its kernel
inline constexpr uint32_t kLineSlots = 2;  // LL and LL128 operations of a channel under way at once
inline constexpr uint32_t kLineBytes = 8;  // of an LL line's 16: data
// LL128: what a warp moves at once, eight lines of 128 bytes.
inline constexpr uint32_t kTileBytes = 960;  // data
inline constexpr uint32_t kTileWire = 1024;  // with flags
inline constexpr uint32_t kStageSlots =
    4;                                    // chunks of a channel and peer under way at once, at most
inline constexpr uint32_t kFewSlots = 2;  // of an operation that has larger ones instead: SlotsOf
inline constexpr uint32_t kLookAhead = 1;  // chunks that a phase is ahead of the next; < kFewSlots
// A member may be so many operations ahead of another one and still learn what that one waits for.
// Members that exchange data get at most two ahead, by LL or by bulk.
inline constexpr uint32_t kDoingSlots = 8;

// At the start of a communicator's region, in each member's heap.
struct alignas(128) RegionHeader {
  uint32_t failed;  // Failure; set by any member, never cleared
};
inline constexpr uint64_t kRegionHeaderBytes = sizeof(RegionHeader);

// Why a communicator has failed.
enum Failure : uint32_t {
  kNoFailure = 0,
  kFailedMismatch = 1,
  kFailedAborted = 2,
  kFailedPeer = 3
};
// Only in the host's word: the process of a member has ended. That fails a rank that waits; another
// rank may have received all that it needs.
inline constexpr uint32_t kPeerGone = 0x100;

// Words of one channel that other members write and the owner polls, indexed by the writer.
struct alignas(128) ChannelFlags {
  uint32_t ready[2][kMaxRanks];     // chunks staged here so far, by phase
  uint32_t credit[2][kMaxRanks];    // chunks of ours that the peer has consumed, by phase
  uint32_t line_credit[kMaxRanks];  // LL operations of ours that the peer has consumed
  uint32_t unused[24];
  LlLine offer[kMaxRanks];  // address of the peer's output - its region + 1; 0: use staging
  // Which operation the peer is at: the operations that its channel has carried + 1, above the
  // signature. [0]: of a collective or as sender, [1]: as receiver. A rank that waits in vain reads
  // it to find a mismatch; the protocol does not depend on it.
  uint64_t doing[2][kDoingSlots][kMaxRanks];
  // They belong to the chunk that is staged in the same slot: the signature if it is an operation's
  // first chunk, and the scalar if the operation is a PreMulSum.
  uint32_t sign[kStageSlots][kMaxRanks];
  uint64_t scalar[kStageSlots][kMaxRanks];
  LlLine line_scalar[kLineSlots][kMaxRanks];  // the scalar of a PreMulSum by LL
};
static_assert(sizeof(ChannelFlags) == 2048);

// What a channel has carried so far, in its owner's memory. Between operations all members have
// equal counts.
struct alignas(16) ChannelState {
  uint32_t lines;      // LL and LL128 operations
  uint32_t bulks;      // bulk operations
  uint32_t chunks;     // chunk numbers used up, skipped ones included; the same for both phases
  uint32_t signature;  // of the last one
};
static_assert(sizeof(ChannelState) == 16);

// Order keys of a communicator: 1 for its collectives, 2 for each peer, by direction.
inline constexpr uint32_t kKeysOfCommunicator = 64;
constexpr uint32_t KeyOfPair(uint32_t peer, bool receives) {
  return 1 + peer * 2 + (receives ? 1 : 0);
}

// The round of a send or receive with such a key: in round d every rank sends to the d-th rank
// above it and receives from the d-th below. So each rank has one send and one receive in a round,
// and both ends of a transfer have the same round.
constexpr uint32_t RoundOf(uint32_t order_key, uint32_t rank, uint32_t ranks) {
  const uint32_t pair = order_key % kKeysOfCommunicator - 1, peer = pair / 2;
  const bool receives = pair % 2 != 0;
  return (receives ? rank + ranks - peer : peer + ranks - rank) % ranks;
}

// Where a port lies in its region; offsets from the region's base.
struct PortLayout {
  uint64_t flags_at = 0, state_at = 0, lines_at = 0, stage_at = 0, end = 0;
  uint64_t tiles_at = 0;
  uint32_t chunk_bytes = 0;     // a staging slot; multiple of 16
  uint16_t line_channels = 0;   // channels with LL and LL128 lanes
  uint16_t lines_per_lane = 0;  // capacity of an LL lane
  uint16_t tiles_per_lane =
      0;  // capacity of an LL128 lane; a one-phase operation uses the lanes of all phases
  uint16_t bulk_channels = 0;  // channels with staging
  uint16_t phases = 0;         // 1 or 2
};

// Tiles of the LL128 lanes of all peers of a channel, for each phase and slot: room for an
// all-reduce of 8 MiB with 128 channels.
inline constexpr uint32_t kLaneTiles = 57;
// The least tiles of a pair's lane: a send uses one lane of each channel, so this is room for 1.1
// MiB with 64 channels, whatever the number of ranks.
inline constexpr uint32_t kPairTiles = 18;

// `stage_bytes` is the whole staging of the port, at most; `at` its start, a multiple of 128.
PortLayout LayOut(uint64_t at, uint32_t ranks, bool pairs, uint32_t line_channels,
                  uint32_t bulk_channels, uint32_t phases, uint64_t stage_bytes);

enum WorkFlags : uint16_t {
  kReduces = 1,        // the rank combines what arrives; else it places it
  kOwn = 2,            // the rank's own input contributes; copied if nothing is combined
  kTwoPhase = 4,       // phase 1 goes by shards, phase 2 hands the results on
  kWritesOutput = 8,   // phase 1's result goes to the own output
  kPair = 16,          // port 1: counters by peer and direction
  kBulk = 32,          // staged chunks; else LL lines or LL128 tiles
  kOffers = 64,        // receivers offer addresses where others write directly (zero copy)
  kRootless = 128,     // two-phase: the root has no shard
  kTiles = 256,        // LL128
  kLargeChunks = 512,  // bulk: kFewSlots, each as large as two of the others
};

// An operation as a kernel gets it, and as it stands in the list that stalled kernels help from.
struct alignas(16) Work {
  // Of the port; the same for all its operations. Up to `in`.
  char* base[kMaxRanks];  // of the communicator's region in each member's heap, as mapped here
  PortLayout port;
  uint32_t* failed;  // host memory, Failure or kPeerGone: host and kernels store it; may be null
  // Of the operation.
  const char* in;
  char* out;
  uint64_t block_bytes;  // from one rank to another in phase 1; two-phase: the shards' stride
  uint64_t total_bytes;  // two-phase: of all shards together
  uint64_t in_stride;    // from the block for one peer to that for the next one, by BlockIndex
  uint64_t out_stride;   // from where one peer's block is placed to the next one's
  uint64_t offered;      // output - own region + 1, modulo 2^64; 0: peers cannot reach it
  uint64_t part;         // of each block, by channel: bytes if bulk, else lines or tiles
  uint32_t chunk;        // bytes moved by a bulk step, at most; <= SlotBytes
  uint32_t part_chunks;  // chunks of a whole part
  uint32_t order_key;    // operations with one key are carried in their order on the stream
  uint16_t channels;
  uint16_t flags;
  uint8_t rank, ranks, peer;
  OpKind kind;
  uint8_t send1, receive1, send2, receive2;  // masks of ranks
  DataType type;
  Operator op;
  uint16_t tag;  // of the communicator, equal on all its members: they sort operations by it, and
                 // so get one order
  uint32_t signature;  // of what must be equal on all members
  uint64_t scalar;     // PreMulSum: the bits of one element, this rank's own
};
static_assert(std::is_trivially_copyable_v<Work> && sizeof(Work) == 240);

// Sizes, in bytes, up to which members carry an operation in one way. Equal on all members.
struct Thresholds {
  uint64_t one_shot = 384 << 10;        // all-reduce by LL: a rank's input times the other ranks
  uint64_t two_shot_lines = 512 << 10;  // all-reduce by LL, in shards: the whole message
  uint64_t two_shot_tiles =
      8 << 20;  // above that by LL128, likewise; broadcast and reduce among more than two ranks
  uint64_t move_lines = 256 << 10;  // other kinds by LL: a pair's block times the other ranks
  uint64_t move_tiles = 4 << 20;    // above that by LL128: a pair's block
  uint64_t root_lines =
      1 << 20;  // such broadcasts and reduces by LL, a pair's block times the other ranks
  uint64_t root_tiles = 3 << 20;  // above that such reduces by LL128, whole, likewise
  uint32_t line_threads = 128;    // lines of a channel before another channel is used
  uint32_t channel_tiles = 4;     // tiles of a channel before another channel is used
  // Bulk: bytes of a pair's block times the other ranks for each channel, of the first few_channels
  // and of the others. A few channels fill the links; the others work while those wait.
  uint32_t bulk_per_channel = 8 << 10;
  uint32_t bulk_per_more = 64 << 10;
  uint32_t few_channels = 64;
  uint32_t most_channels = 128;
  uint32_t chunks_per_channel = 1;  // least chunks of a part, while they have 8 KiB or more
};

// Whether offers add no wait to an operation of that kind by bulk: its writers never finish before
// their readers have begun anyway, or it places nothing.
bool OffersMakeNobodyWait(OpKind kind, uint32_t ranks);

// Derives strides, masks, flags, channels and chunk from the operation. The caller has set rank,
// ranks, port, type, op, kind, in, out and scalar. `count` is NCCL's count for the kind, `peer` its
// root or peer. Returns false if the kind or a rank is not valid.
bool PlanWork(Work* work, uint64_t count, uint32_t peer, const Thresholds& thresholds, bool offers);

GRT_HD inline uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
GRT_HD inline uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// The place of rank p's block among the blocks of a buffer. If the root has no shard, counting
// starts with the rank behind it, and the root comes last: behind the message's end.
GRT_HD inline uint32_t BlockIndex(const Work& w, uint32_t p) {
  if ((w.flags & kRootless) == 0) return p;
  return p > w.peer ? p - w.peer - 1 : p + w.ranks - w.peer - 1;
}
GRT_HD inline uint64_t InAt(const Work& w, uint32_t p) { return BlockIndex(w, p) * w.in_stride; }
GRT_HD inline uint64_t OutAt(const Work& w, uint32_t p) { return BlockIndex(w, p) * w.out_stride; }

// Bytes of rank p's block.
GRT_HD inline uint64_t BlockBytes(const Work& w, uint32_t p) {
  if ((w.flags & kTwoPhase) == 0) return w.block_bytes;
  const uint64_t begin = Least(w.block_bytes * BlockIndex(w, p), w.total_bytes);
  return Least(w.block_bytes, w.total_bytes - begin);
}

GRT_HD inline RegionHeader* HeaderAt(const Work& w, uint32_t member) {
  return reinterpret_cast<RegionHeader*>(w.base[member]);
}

GRT_HD inline ChannelFlags* FlagsAt(const Work& w, uint32_t member, uint32_t channel) {
  return reinterpret_cast<ChannelFlags*>(w.base[member] + w.port.flags_at) + channel;
}

// Counters of the channel; for a pair, of the direction.
GRT_HD inline ChannelState* StateAt(const Work& w, uint32_t channel) {
  auto* states = reinterpret_cast<ChannelState*>(w.base[w.rank] + w.port.state_at);
  if ((w.flags & kPair) == 0) return states + channel;
  const uint32_t receives = w.receive1 != 0;
  return states + (channel * kMaxRanks + w.peer) * 2 + receives;
}

// A peer's place among the peers of `owner`, which has no place itself.
GRT_HD inline uint32_t PeerPlace(uint32_t owner, uint32_t peer) {
  return peer - (peer > owner ? 1 : 0);
}

// The LL lane in the memory of `owner` that `writer` writes.
GRT_HD inline LlLine* LaneAt(const Work& w, uint32_t owner, uint32_t channel, uint32_t slot,
                             uint32_t phase, uint32_t writer) {
  const uint64_t lane =
      ((uint64_t{channel} * kLineSlots + slot) * w.port.phases + phase) * w.ranks + writer;
  return reinterpret_cast<LlLine*>(w.base[owner] + w.port.lines_at) + lane * w.port.lines_per_lane;
}

// The LL128 lane in the memory of `owner` that `writer` writes; the next phase's lane follows. A
// one-phase operation uses both lanes of its slot as one.
GRT_HD inline char* TileLaneAt(const Work& w, uint32_t owner, uint32_t channel, uint32_t slot,
                               uint32_t phase, uint32_t writer) {
  const uint64_t lane =
      ((uint64_t{channel} * kLineSlots + slot) * (w.ranks - 1) + PeerPlace(owner, writer)) *
          w.port.phases +
      phase;
  return w.base[owner] + w.port.tiles_at + lane * (uint64_t{w.port.tiles_per_lane} * kTileWire);
}

// Bulk: into how many slots the operation cuts a channel's staging for one peer and phase.
GRT_HD inline uint32_t SlotsOf(const Work& w) {
  return (w.flags & kLargeChunks) != 0 ? kFewSlots : kStageSlots;
}
GRT_HD inline uint32_t SlotBytes(const Work& w) {
  return w.port.chunk_bytes * (kStageSlots / SlotsOf(w));
}
// How many chunks the reader must have consumed before the writer may write chunk `number` of an
// operation whose first chunk is `base`. A collective's first chunks may overlap slots of another
// size of the operation before it, so they wait for all of that; a transfer's never do.
GRT_HD inline uint32_t Wanted(const Work& w, uint32_t base, uint32_t number) {
  const bool first = (w.flags & kPair) == 0 && number - base < SlotsOf(w);
  return first ? base : number + 1 - SlotsOf(w);
}
GRT_HD inline char* StageAt(const Work& w, uint32_t owner, uint32_t channel, uint32_t phase,
                            uint32_t writer, uint32_t chunk_number) {
  const uint64_t lane =
      (uint64_t{channel} * w.port.phases + phase) * (w.ranks - 1) + PeerPlace(owner, writer);
  return w.base[owner] + w.port.stage_at + lane * (uint64_t{kStageSlots} * w.port.chunk_bytes) +
         chunk_number % SlotsOf(w) * SlotBytes(w);
}

GRT_HD inline uint32_t OthersMask(const Work& w) { return ((1u << w.ranks) - 1) & ~(1u << w.rank); }

// The peers to which a channel gives credit for what it consumed: all of them, so that the counters
// of all pairs stay equal; in a pair, the sender.
GRT_HD inline uint32_t CreditMask(const Work& w) {
  return (w.flags & kPair) != 0 ? w.receive1 : OthersMask(w);
}

// The other members of the operation.
GRT_HD inline uint32_t PartnersMask(const Work& w) {
  return (w.flags & kPair) != 0 ? 1u << w.peer : OthersMask(w);
}

// The value of ChannelFlags::doing while the channel carries this operation. `number`: the
// operations that the channel has carried before, + 1.
GRT_HD inline uint64_t DoingWord(const Work& w, uint32_t number) {
  return uint64_t{number} << 32 | w.signature;
}
GRT_HD inline uint64_t* DoingAt(const Work& w, uint32_t owner, uint32_t channel, uint32_t number,
                                uint32_t writer, bool receives) {
  return &FlagsAt(w, owner, channel)->doing[receives ? 1 : 0][number % kDoingSlots][writer];
}
GRT_HD inline bool IsReceiver(const Work& w) { return (w.flags & kPair) != 0 && w.receive1 != 0; }

// Whether member p's operation `number` is another one than this rank's, which has `signature`.
// False also if p has not announced its operation.
GRT_HD inline bool Disagrees(const Work& w, uint32_t channel, uint32_t number, uint32_t signature,
                             uint32_t p) {
  // The other end of a pair receives if this one does not.
  const bool receives = (w.flags & kPair) != 0 && !IsReceiver(w);
  const uint64_t word = Load<kSystem, kRelaxed>(DoingAt(w, w.rank, channel, number, p, receives));
  // Loaded in any case: no branch before it.
  return (number != 0) & ((PartnersMask(w) >> p & 1) != 0) &
         (static_cast<uint32_t>(word >> 32) == number) & (static_cast<uint32_t>(word) != signature);
}

GRT_HD inline bool IsPreMultiplied(const Work& w) {
  return w.op == Operator::kPreMulSum && Reduces(w.kind);
}

// Bulk: how many chunk numbers `channel` uses in each phase. Equal on all members.
GRT_HD inline uint32_t ChunkCount(const Work& w, uint32_t channel) {
  const uint64_t begin = w.part * channel;
  if (begin >= w.block_bytes) return 0;
  const uint64_t bytes = w.block_bytes - begin;
  if (bytes >= w.part) return w.part_chunks;
  return static_cast<uint32_t>((bytes + w.chunk - 1) / w.chunk);
}

// LL and LL128: lines or tiles of each block, and of each channel.
GRT_HD inline uint32_t UnitBytes(const Work& w) {
  return (w.flags & kTiles) != 0 ? kTileBytes : kLineBytes;
}
GRT_HD inline uint64_t UnitCount(const Work& w) {
  return (w.block_bytes + UnitBytes(w) - 1) / UnitBytes(w);
}
GRT_HD inline uint32_t UnitsPerChannel(const Work& w) { return static_cast<uint32_t>(w.part); }
// Bytes of each block that a channel carries, at most.
GRT_HD inline uint64_t PartBytes(const Work& w) {
  return (w.flags & kBulk) != 0 ? w.part : w.part * UnitBytes(w);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_WORK_H_
