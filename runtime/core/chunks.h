// How an operation is cut: which elements chunk k of a channel holds, who contributes and who
// reads. Pure functions of what is equal on all members.
#ifndef GORDIAN_RUNTIME_CORE_CHUNKS_H_
#define GORDIAN_RUNTIME_CORE_CHUNKS_H_

#include <cstdint>

#include "runtime/core/op.h"

namespace gordian::runtime {

struct Chunks {
  uint64_t piece = 1;   // elements of a full piece; two-shot: of a full chunk
  uint64_t shard = 0;   // two-shot: elements that each member reduces of a full chunk
  uint64_t total = 0;   // chunks of all channels together
  bool pieces = false;  // a contribution has a piece for each member
  bool two_shot = false;
};

GRT_HD constexpr bool HasPieces(OpKind kind) {
  return kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll || kind == OpKind::kScatter;
}

GRT_HD constexpr Chunks ChunksOf(const OpDesc& op, uint32_t n, uint64_t chunk_bytes) {
  Chunks c;
  const uint64_t elements = chunk_bytes / SizeOf(op.dtype);
  c.pieces = HasPieces(op.kind);
  c.two_shot = op.kind == OpKind::kAllReduce && op.algo != Algo::kOneShot && n > 1;
  if (c.pieces) {
    c.piece = elements / n;
  } else if (c.two_shot) {
    c.shard = elements / n;
    c.piece = c.shard * n;
  } else {
    c.piece = elements;
  }
  if (c.piece == 0) c.piece = 1;
  c.total = (op.count + c.piece - 1) / c.piece;
  return c;
}

// Chunks of one channel: those whose number is the channel's, modulo nchan.
GRT_HD constexpr uint64_t ChannelChunks(const Chunks& c, uint32_t channel, uint32_t nchan) {
  return c.total > channel ? (c.total - channel + nchan - 1) / nchan : 0;
}

// Elements [first, first + count) of a piece (or of the whole contribution).
struct Span {
  uint64_t first = 0, count = 0;
};
GRT_HD constexpr Span ChunkSpan(const Chunks& c, uint64_t count, uint64_t chunk) {
  const uint64_t first = chunk * c.piece;
  const uint64_t left = count - first;
  return {first, left < c.piece ? left : c.piece};
}
// Two-shot: member j's part of a chunk of `count` elements, from the chunk's begin. The last chunk
// is cut evenly as well.
GRT_HD constexpr Span ShardSpan(uint64_t count, uint32_t n, uint32_t j) {
  const uint64_t shard = (count + n - 1) / n;
  const uint64_t first = shard * j < count ? shard * j : count;
  const uint64_t end = first + shard < count ? first + shard : count;
  return {first, end - first};
}

// Two-shot where results need no lane: member j reduces one stretch of the whole contribution,
// chunk by chunk, so that it goes through memory in order.
GRT_HD constexpr Span StretchSpan(const Chunks& c, uint64_t count, uint32_t n, uint32_t j,
                                  uint64_t chunk) {
  const Span all = ShardSpan(count, n, j);
  constexpr uint64_t kTogether = 64;  // elements that are not cut, but at the end
  const uint64_t part =
      ((all.count + c.total - 1) / c.total + kTogether - 1) / kTogether * kTogether;
  const uint64_t first = part * chunk < all.count ? part * chunk : all.count;
  const uint64_t end = first + part < all.count ? first + part : all.count;
  return {all.first + first, end - first};
}

// Members that contribute, and that read contributions, as masks (n at most 64).
GRT_HD constexpr uint64_t AllMembers(uint32_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}
GRT_HD constexpr uint64_t Publishers(const OpDesc& op, uint32_t n) {
  switch (op.kind) {
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      return uint64_t{1} << op.root_or_peer;
    case OpKind::kSend:
    case OpKind::kRecv:
      return 1;  // of a pair's port, member 0 sends
    default:
      return AllMembers(n);
  }
}
GRT_HD constexpr uint64_t Readers(const OpDesc& op, uint32_t n) {
  switch (op.kind) {
    case OpKind::kReduce:
    case OpKind::kGather:
      return uint64_t{1} << op.root_or_peer;
    case OpKind::kSend:
    case OpKind::kRecv:
      return 2;
    default:
      return AllMembers(n);
  }
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_CHUNKS_H_
