#include "runtime/cuda/protocol/work.h"

#include <algorithm>

namespace gordian::runtime::cuda {

namespace {

constexpr uint64_t kLeastChunk = 8 << 10;
// Larger chunks gain nothing: the first and the last one travel alone.
constexpr uint64_t kMostChunk = 64 << 10;

}  // namespace

PortLayout LayOut(uint64_t at, uint32_t ranks, bool pairs, uint32_t line_channels,
                  uint32_t bulk_channels, uint32_t phases, uint64_t stage_bytes) {
  PortLayout port;
  port.line_channels = static_cast<uint16_t>(line_channels);
  // The whole is as large for any number of ranks.
  port.lines_per_lane = static_cast<uint16_t>(2048 / std::max(ranks, 2u));
  const uint32_t peers = std::max(ranks, 2u) - 1;
  port.tiles_per_lane =
      static_cast<uint16_t>(std::max((kLaneTiles + peers - 1) / peers, pairs ? kPairTiles : 0));
  port.bulk_channels = static_cast<uint16_t>(bulk_channels);
  port.phases = static_cast<uint16_t>(phases);
  const uint64_t slots = uint64_t{bulk_channels} * phases * peers * kStageSlots;
  port.chunk_bytes =
      static_cast<uint32_t>(std::clamp(stage_bytes / slots / 1024 * 1024, kLeastChunk, kMostChunk));
  port.flags_at = at;
  const uint32_t channels = std::max(line_channels, bulk_channels);
  port.state_at = port.flags_at + channels * sizeof(ChannelFlags);
  port.lines_at =
      RoundUp(port.state_at + channels * sizeof(ChannelState) * (pairs ? kMaxRanks * 2 : 1), 128);
  const uint64_t lanes = uint64_t{line_channels} * kLineSlots * phases * ranks;
  port.tiles_at = RoundUp(port.lines_at + lanes * port.lines_per_lane * sizeof(LlLine), 128);
  port.stage_at = port.tiles_at + lanes / ranks * peers * port.tiles_per_lane * kTileWire;
  port.end = RoundUp(port.stage_at + slots * port.chunk_bytes, 128);
  return port;
}

namespace {

// Hashes what members must agree on. A send and its receive must agree on the bytes, not the type.
uint32_t SignatureOf(const Work& w, uint64_t count, uint32_t peer) {
  OpDesc op;
  op.kind = w.kind;
  op.dtype = w.type;
  op.redop = w.op;
  op.root_or_peer = static_cast<int32_t>(peer);
  op.count = count;
  const uint64_t signature = Signature(op);
  return static_cast<uint32_t>(signature ^ signature >> 32);
}

// The stride of at most `shards` shards of a message.
uint64_t ShardBytes(uint64_t bytes, uint64_t shards) {
  return RoundUp((bytes + shards - 1) / shards, 16);
}

// Sets masks, strides and flags that are the same whether LL, LL128 or bulk carries the operation.
bool Shape(Work* work, uint64_t bytes, uint32_t peer, bool two_phase) {
  Work& w = *work;
  const uint32_t others = OthersMask(w);
  const bool is_root = w.rank == peer;
  const auto root = static_cast<uint8_t>(1u << peer);
  uint32_t send = 0, receive = 0, flags = 0;
  w.block_bytes = bytes;
  w.in_stride = w.out_stride = 0;
  w.send2 = w.receive2 = 0;
  switch (w.kind) {
    case OpKind::kAllReduce:
      send = receive = others;
      flags = kReduces | kOwn | kWritesOutput;
      if (two_phase) w.send2 = w.receive2 = static_cast<uint8_t>(others);
      break;
    case OpKind::kAllGather:
      send = receive = others;
      w.out_stride = bytes;
      flags = kOwn | kWritesOutput;
      break;
    case OpKind::kReduceScatter:
      send = receive = others;
      w.in_stride = bytes;
      flags = kReduces | kOwn | kWritesOutput;
      break;
    case OpKind::kAllToAll:
      send = receive = others;
      w.in_stride = w.out_stride = bytes;
      flags = kOwn | kWritesOutput;
      break;
    case OpKind::kBroadcast:
      if (is_root) {
        send = others;
        flags = kOwn;
      } else {
        receive = root;
      }
      flags |= kWritesOutput;
      if (two_phase) {
        // The root sends each other rank a shard, which hands it on to all but the root.
        flags |= kRootless;
        if (!is_root) w.send2 = w.receive2 = static_cast<uint8_t>(others & ~root);
      }
      break;
    case OpKind::kReduce:
      flags = kReduces | kOwn;
      if (two_phase) {
        // Each rank but the root combines a shard and sends it to the root.
        flags |= kRootless;
        send = others & ~root;
        receive = is_root ? 0 : others;
        w.send2 = is_root ? 0 : root;
        w.receive2 = static_cast<uint8_t>(is_root ? others : 0);
      } else if (is_root) {
        receive = others;
      } else {
        send = root;
        flags = 0;
      }
      if (is_root) flags |= kWritesOutput;
      break;
    case OpKind::kGather:
      if (is_root) {
        receive = others;
        flags = kOwn | kWritesOutput;
      } else {
        send = root;
      }
      w.out_stride = bytes;
      break;
    case OpKind::kScatter:
      if (is_root) {
        send = others;
        flags = kOwn;
      } else {
        receive = root;
      }
      flags |= kWritesOutput;
      w.in_stride = bytes;
      break;
    case OpKind::kSend:
      send = root;
      flags = kPair;
      break;
    case OpKind::kRecv:
      receive = root;
      flags = kPair | kWritesOutput;
      break;
    default:
      return false;
  }
  if (two_phase) {
    flags |= kTwoPhase;
    w.total_bytes = bytes;
    w.block_bytes = ShardBytes(bytes, (flags & kRootless) != 0 ? w.ranks - 1u : w.ranks);
    w.in_stride = w.out_stride = w.block_bytes;
  } else {
    w.total_bytes = bytes;
  }
  w.send1 = static_cast<uint8_t>(send);
  w.receive1 = static_cast<uint8_t>(receive);
  w.flags = static_cast<uint16_t>(flags);
  w.peer = static_cast<uint8_t>(peer);
  return true;
}

}  // namespace

bool OffersMakeNobodyWait(OpKind kind, uint32_t ranks) {
  // A one-phase reduce to a root places nothing. In phase 2 of a broadcast all ranks but the root
  // exchange shards, so they wait for each other anyway; phase 1 goes through staging.
  return kind == OpKind::kAllReduce || kind == OpKind::kAllGather || kind == OpKind::kAllToAll ||
         kind == OpKind::kReduce || (kind == OpKind::kBroadcast && ranks > 2);
}

bool PlanWork(Work* work, uint64_t count, uint32_t peer, const Thresholds& t, bool offers) {
  Work& w = *work;
  if (w.ranks < 1 || w.ranks > kMaxRanks || w.rank >= w.ranks || peer >= w.ranks) return false;
  const OpKind kind = w.kind;
  const bool pair = IsPointToPoint(kind);
  if (pair && peer == w.rank) return false;
  const uint64_t bytes = count * SizeOf(w.type);
  const bool reduces_all = kind == OpKind::kAllReduce;
  const uint64_t line_room = uint64_t{w.port.line_channels} * w.port.lines_per_lane * kLineBytes;
  const uint64_t tile_room = uint64_t{w.port.line_channels} * w.port.tiles_per_lane * kTileBytes;
  const uint64_t whole_tile_room = tile_room * w.port.phases;

  // Count what a rank sends: the same for each other rank.
  const uint64_t others = std::max(w.ranks - 1u, 1u);
  const bool by_root = w.ranks > 2 && (kind == OpKind::kBroadcast || kind == OpKind::kReduce);
  const uint64_t shard = ShardBytes(bytes, by_root ? others : w.ranks);

  const uint64_t most_lines = reduces_all ? t.one_shot : by_root ? t.root_lines : t.move_lines;
  const bool lines_whole = bytes * others <= most_lines && bytes <= line_room;
  bool lines = lines_whole, tiles = false, two_phase = false;
  if (!lines_whole && reduces_all && w.ranks > 1) {
    two_phase = true;
    lines = bytes <= t.two_shot_lines && shard <= line_room;
    tiles = !lines && bytes <= t.two_shot_tiles && shard <= tile_room;
  } else if (!lines_whole && kind == OpKind::kReduce && by_root && bytes * others <= t.root_tiles &&
             bytes <= whole_tile_room) {
    tiles = true;
  } else if (!lines_whole && by_root) {
    two_phase = true;
    lines = kind == OpKind::kReduce && bytes <= t.two_shot_lines && shard <= line_room;
    tiles = !lines && bytes <= t.two_shot_tiles && shard <= tile_room;
  } else if (!lines_whole && w.ranks > 1) {
    tiles = bytes <= t.move_tiles && bytes <= whole_tile_room;
  }
  if (!Shape(&w, bytes, peer, two_phase)) return false;
  w.signature = SignatureOf(w, count, peer);
  if (lines || tiles) {
    if (tiles) w.flags |= kTiles;
    const uint64_t units = std::max<uint64_t>(UnitCount(w), 1);
    const uint64_t room =
        tiles ? w.port.tiles_per_lane * (two_phase ? 1u : w.port.phases) : w.port.lines_per_lane;
    // A kernel carries several sends and receives at once, so each gets fewer channels.
    const uint64_t each = tiles ? t.channel_tiles * (pair ? 2 : 1) : t.line_threads;
    w.channels = static_cast<uint16_t>(std::min<uint64_t>(
        std::max((units + room - 1) / room, (units + each - 1) / each), w.port.line_channels));
    w.part = (UnitCount(w) + w.channels - 1) / w.channels;
    w.chunk = w.part_chunks = 0;
  } else {
    w.flags |= kBulk;
    const uint64_t volume = w.block_bytes * others;
    const uint64_t few =
        std::min<uint64_t>((volume + t.bulk_per_channel - 1) / t.bulk_per_channel, t.few_channels);
    const uint64_t more = volume / t.bulk_per_more;
    w.channels = static_cast<uint16_t>(std::clamp<uint64_t>(
        std::max(few, more), 1,
        std::max(1u, std::min<uint32_t>(t.most_channels, w.port.bulk_channels))));
    w.part = RoundUp((w.block_bytes + w.channels - 1) / w.channels, 16);
    // Make the chunks of a part equal: a short last one costs as many fences as a whole one.
    const uint64_t split = RoundUp((w.part + t.chunks_per_channel - 1) / t.chunks_per_channel, 16);
    // Two-phase operations use fewer and larger chunks, so that a turn's fence and waits serve more
    // data. Readers give a scattered chunk's slot back in the middle of a turn, long before the
    // writer needs it, so fewer slots cost no wait there. In one phase they would.
    if (two_phase && w.port.chunk_bytes < kMostChunk) w.flags |= kLargeChunks;
    const uint64_t most =
        std::min({std::max(split, kLeastChunk), uint64_t{SlotBytes(w)}, kMostChunk});
    const uint64_t chunks = std::max<uint64_t>((w.part + most - 1) / most, 1);
    w.chunk =
        static_cast<uint32_t>(std::max<uint64_t>(RoundUp((w.part + chunks - 1) / chunks, 16), 16));
    w.part_chunks = static_cast<uint32_t>((w.part + w.chunk - 1) / w.chunk);
    // Members offer only an output that others' data lies in unchanged: data that is combined in
    // phase 1 passes through staging.
    const bool places = two_phase || !Reduces(kind);
    if (offers && places) w.flags |= kOffers;
  }
  return true;
}

}  // namespace gordian::runtime::cuda
