// LL128: each line of 128 bytes has 120 bytes of data and 8 of flags. A warp stores a line by one
// instruction, and the line arrives whole, over NVLink too. A load may read the data before the
// line arrives and the flags after it: so a reader loads the line once more when it has seen the
// flags. As with LL, data and flags travel in one hop, without a fence; the flags take a sixteenth
// of the links' capacity, where LL's take half.
//
// A warp moves tiles of eight lines, two 16-byte words a thread. Lines 0 to 3 hold the first 512 of
// a tile's 960 bytes in order, except that flags replace the second half of each line's last word;
// that half moves to the last word of the line four below, beside its flags. So each thread reads
// and writes whole 16-byte words of the buffers. Source of the protocol and of this arrangement:
// NCCL's prims_ll128.h.
//
// Thread rule: as ll_common_device.h; a tile belongs to a warp, whose threads call together.
// Diverged threads would store a partial line, so a function that stores lines reconverges the warp
// first (SyncWarp).
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_TILE_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_TILE_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/protocol/ll_common_device.h"

namespace gordian::runtime::cuda {

// A thread's words of a tile.
struct Tile {
  Pack pack[kLanesOfThread][2];
};

// Whether the lane's word is the last of its line, which holds the flags.
GRT_HD inline bool HasFlags(uint32_t lane) { return lane % 8 == 7; }
// Which 16-byte word of the tile's data the lane moves with its first (`half` 0) or second word; a
// lane with flags has no second one.
GRT_HD inline uint32_t PackOf(uint32_t lane, uint32_t half) {
  return half == 0 ? lane : 32 + lane - lane / 8;
}
GRT_HD inline bool HasPack(uint32_t lane, uint32_t half) { return half == 0 || !HasFlags(lane); }

// Bytes of a tile of block p; 0 where the block has ended.
GRT_HD inline uint32_t TileBytes(const Work& w, uint32_t p, uint64_t tile) {
  const uint64_t bytes = BlockBytes(w, p), at = tile * kTileBytes;
  return at >= bytes ? 0 : static_cast<uint32_t>(Least(kTileBytes, bytes - at));
}

// Loads data of any alignment and any number of bytes.
template <typename Block>
GRT_APART GRT_HD void LoadTileSlowly(Block& b, const char* from, uint32_t bytes, Tile* tile) {
  for (uint32_t i = 0; i < kLanesOfThread * 2; ++i) {
    const uint32_t lane = b.Lane() + i / 2, half = i % 2, at = PackOf(lane, half) * 16;
    Pack& pack = tile->pack[i / 2][half] = {};
    if (!HasPack(lane, half)) continue;
    if (at < bytes)
      pack.word[0] = LoadBytes(from + at, static_cast<uint32_t>(Least(8, bytes - at)));
    if (at + 8 < bytes)
      pack.word[1] = LoadBytes(from + at + 8, static_cast<uint32_t>(Least(8, bytes - at - 8)));
  }
}
template <typename Block>
GRT_APART GRT_HD void StoreTileSlowly(Block& b, char* to, uint32_t bytes, const Tile* tile) {
  for (uint32_t i = 0; i < kLanesOfThread * 2; ++i) {
    const uint32_t lane = b.Lane() + i / 2, half = i % 2, at = PackOf(lane, half) * 16;
    const Pack& pack = tile->pack[i / 2][half];
    if (!HasPack(lane, half)) continue;
    if (at < bytes) StoreBytes(to + at, pack.word[0], static_cast<uint32_t>(Least(8, bytes - at)));
    if (at + 8 < bytes)
      StoreBytes(to + at + 8, pack.word[1], static_cast<uint32_t>(Least(8, bytes - at - 8)));
  }
}

// Whether all blocks of a buffer consist of aligned 16-byte words, as most do: their tiles need no
// loop over bytes.
GRT_HD inline bool IsEven(const Work& w, const char* buffer, uint64_t stride) {
  return IsAligned(buffer, 16) && ((stride | w.block_bytes | w.total_bytes) & 15) == 0;
}
// Loads a tile of such a block.
template <typename Block>
GRT_HD inline void LoadEvenTile(Block& b, const char* from, uint32_t bytes, Tile* tile) {
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread * 2; ++i) {
    const uint32_t lane = b.Lane() + i / 2, half = i % 2, at = PackOf(lane, half) * 16;
    Pack pack = {};
    if (HasPack(lane, half) && at < bytes) pack = LoadPack(from + at);
    tile->pack[i / 2][half] = pack;
  }
}
template <typename Block>
GRT_HD inline void StoreEvenTile(Block& b, char* to, uint32_t bytes, const Tile& tile) {
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread * 2; ++i) {
    const uint32_t lane = b.Lane() + i / 2, half = i % 2, at = PackOf(lane, half) * 16;
    if (HasPack(lane, half) && at < bytes) StorePack(to + at, tile.pack[i / 2][half]);
  }
}
// Loads a tile of any block. LoadTileSlowly gets a tile of its own, because it takes its address,
// which keeps a tile out of registers.
template <typename Block>
GRT_HD inline void LoadTile(Block& b, bool even, const char* from, uint32_t bytes, Tile* tile) {
  if (even) {
    LoadEvenTile(b, from, bytes, tile);
  } else {
    Tile some;
    LoadTileSlowly(b, from, bytes, &some);
    *tile = some;
  }
}
template <typename Block>
GRT_HD inline void StoreTile(Block& b, bool even, char* to, uint32_t bytes, const Tile& tile) {
  if (even) {
    StoreEvenTile(b, to, bytes, tile);
  } else {
    const Tile some = tile;
    StoreTileSlowly(b, to, bytes, &some);
  }
}

GRT_HD inline uint64_t FlagWord(const LineFlags& flags) {
  return uint64_t{flags.second} << 32 | flags.first;
}

// Stores tile `at` in a peer's lane. The reader ignores bytes behind a block's end.
template <typename Block>
GRT_HD inline void PutTile(Block& b, char* lane_of_peer, uint32_t at, const LineFlags& flags,
                           const Tile& tile) {
  char* const to = lane_of_peer + uint64_t{at} * kTileWire;
  GRT_UNROLL
  for (uint32_t half = 0; half < 2; ++half) {
    b.SyncWarp();
    const bool together = b.Together();
    GRT_UNROLL
    for (uint32_t k = 0; k < kLanesOfThread; ++k) {
      // On the host: store the flags first if the warp has diverged, so that tests see torn lines.
      const uint32_t i = together ? k : kLanesOfThread - 1 - k;
      const uint32_t lane = b.Lane() + i;
      const Pack& pack = tile.pack[i][half];
      const uint64_t first = half == 1 && HasFlags(lane) ? tile.pack[i][0].word[1] : pack.word[0];
      StoreWhole(to + half * 512 + lane * 16, first,
                 HasFlags(lane) ? FlagWord(flags) : pack.word[1]);
      if (HasFlags(lane) || !together) b.Between();
    }
  }
}

// Each thread: whether its lines have their flags.
template <typename Block>
GRT_HD inline bool PeekTile(Block& b, const char* own_lane, uint32_t at, const LineFlags& flags) {
  const char* const from = own_lane + uint64_t{at} * kTileWire;
  bool arrived = true;
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread; ++i) {
    const uint32_t lane = b.Lane() + i;
    if (!HasFlags(lane)) continue;
    const Pack first = LoadWhole(from + lane * 16), second = LoadWhole(from + 512 + lane * 16);
    arrived = arrived & (first.word[1] == FlagWord(flags)) & (second.word[1] == FlagWord(flags));
  }
  b.Between();
  return arrived;
}

// Loads tile `at` of the own lane, which has arrived.
template <typename Block>
GRT_HD inline void GetTile(Block& b, const char* own_lane, uint32_t at, Tile* tile) {
  const char* const from = own_lane + uint64_t{at} * kTileWire;
  GRT_UNROLL
  for (uint32_t half = 0; half < 2; ++half) {
    GRT_UNROLL
    for (uint32_t i = 0; i < kLanesOfThread; ++i) {
      tile->pack[i][half] = LoadWhole(from + half * 512 + (b.Lane() + i) * 16);
      b.Between();
    }
  }
}

// Loads one word of a tile that has arrived, as OpenTile leaves it.
template <typename Block>
GRT_HD inline Pack GetPack(Block& b, const char* own_lane, uint32_t at, uint32_t i, uint32_t half) {
  const uint32_t lane = b.Lane() + i;
  const char* const from = own_lane + uint64_t{at} * kTileWire + lane * 16;
  Pack pack = LoadWhole(from + half * 512);
  if (half == 0 && HasFlags(lane)) pack.word[1] = LoadWhole(from + 512).word[0];
  return pack;
}
// Each thread: whether its lines in a tile have their flags. If so, it must load its words once
// more.
GRT_HD inline bool HasItsFlags(uint32_t first_lane, const Tile& tile, const LineFlags& flags) {
  bool has = true;
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread; ++i) {
    const Pack* const pack = tile.pack[i];
    const bool both = pack[0].word[1] == FlagWord(flags) && pack[1].word[1] == FlagWord(flags);
    has = has & (both || !HasFlags(first_lane + i));
  }
  return has;
}

// Puts the data halves that moved for the flags back into their places.
GRT_HD inline void OpenTile(uint32_t first_lane, Tile* tile) {
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread; ++i) {
    Pack* const pack = tile->pack[i];
    if (HasFlags(first_lane + i)) pack[0].word[1] = pack[1].word[0];
  }
}

// Registers hold the tiles of up to three peers. A rank's peers have places, in the order of
// PeerAt. In a kernel with room for one peer, the peer of a send or receive has the first place;
// no peer in another place takes part.
inline constexpr uint32_t kTilesAtOnce = 3;
template <uint32_t kPlaces>
GRT_HD inline uint32_t PeerAt(const Work& w, uint32_t place) {
  if constexpr (kPlaces == 1) {
    if ((w.flags & kPair) != 0) return place == 0 ? w.peer : w.rank;
  }
  return place + (place >= w.rank ? 1 : 0);
}

// Loads tile t of the peers in `from` at the kPlaces places from `first` on. False: one has not
// arrived. (Loading only the flags first was measured to take longer.)
template <uint32_t kPlaces, typename Block>
GRT_HD inline bool GetTiles(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                            uint32_t phase, uint32_t from, uint32_t first, uint32_t t,
                            Tile (&tiles)[kPlaces]) {
  bool there = true;
  GRT_UNROLL
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const uint32_t p = PeerAt<kPlaces>(w, first + i);
    if ((from >> p & 1) == 0) continue;
    const char* const lane = TileLaneAt(w, w.rank, channel, lines.slot, phase, p);
    GetTile(b, lane, t, &tiles[i]);
    const bool has = HasItsFlags(b.Lane(), tiles[i], lines.flags);
    there = there & has;
  }
  if (!b.AllOfWarp(there)) return false;
  GRT_UNROLL
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const uint32_t p = PeerAt<kPlaces>(w, first + i);
    if ((from >> p & 1) != 0) {
      GetTile(b, TileLaneAt(w, w.rank, channel, lines.slot, phase, p), t, &tiles[i]);
    }
  }
  GRT_UNROLL
  for (uint32_t i = 0; i < kPlaces; ++i) {
    if ((from >> PeerAt<kPlaces>(w, first + i) & 1) != 0) OpenTile(b.Lane(), &tiles[i]);
  }
  return true;
}

// Each thread: whether tile t has arrived from all ranks in `from` that send it.
template <typename Block>
GRT_HD inline bool HasArrivedTile(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                                  uint32_t phase, uint32_t from, uint32_t t) {
  bool arrived = true;
  for (uint32_t p = 0; p < w.ranks; ++p) {
    // Combined data is of the own shard; other data of the sender's block.
    if ((from >> p & 1) == 0 || TileBytes(w, phase == 0 ? w.rank : p, lines.first + t) == 0)
      continue;
    const bool has =
        PeekTile(b, TileLaneAt(w, w.rank, channel, lines.slot, phase, p), t, lines.flags);
    arrived = arrived & has;
  }
  return arrived;
}

// Combines a word of all contributors; `words` by place, `own` is this rank's.
template <typename T, uint32_t kPlaces>
GRT_HD inline uint64_t SumOf(const Work& w, const uint64_t (&words)[kPlaces], uint64_t own,
                             const uint64_t* scalars) {
  uint64_t in_order[kPlaces + 1];
  GRT_UNROLL
  for (uint32_t p = 0; p <= kPlaces; ++p) {
    in_order[p] = own;
    if (p < kPlaces && p < w.rank) in_order[p] = words[p < kPlaces ? p : 0];
    if (p > w.rank) in_order[p] = words[p > 0 ? p - 1 : 0];
  }
  return Reduce<T>(in_order, w.receive1 | 1u << w.rank, w.type, w.op, w.ranks, scalars);
}

// Phase 1 of tile t of an operation that combines. False: data has not arrived.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline bool ReduceTile(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                              uint32_t t, uint32_t polls) {
  constexpr uint32_t kPlaces = kRanks - 1;
  const uint64_t at = lines.first + t;
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint32_t bytes = TileBytes(w, w.rank, at);
  const bool writes = (w.flags & kWritesOutput) != 0;
  if (bytes == 0 || (!shards && !writes)) return true;  // no rank sends it; a leaf receives nothing
  Tile own;
  LoadTile(b, IsEven(w, w.in, w.in_stride), w.in + InAt(w, w.rank) + at * kTileBytes, bytes, &own);
  [[maybe_unused]] uint64_t scalars[std::is_same_v<T, AnyType> ? kRanks : 1];
  [[maybe_unused]] Tile tiles[kPlaces <= kTilesAtOnce ? kPlaces : 1];
  for (;; --polls) {
    bool arrived = true;
    if constexpr (kPlaces <= kTilesAtOnce) {
      arrived = GetTiles<kPlaces>(b, w, channel, lines, 0, w.receive1, 0, t, tiles);
    } else {
      arrived = b.AllOfWarp(HasArrivedTile(b, w, channel, lines, 0, w.receive1, t));
    }
    if constexpr (std::is_same_v<T, AnyType>) {
      if (IsPreMultiplied(w))
        arrived = b.AllOfWarp(TakeScalars(w, channel, lines, scalars)) && arrived;
    }
    if (arrived) break;
    if (polls == 0) return false;
  }
  GRT_UNROLL
  for (uint32_t i = 0; i < kLanesOfThread * 2; ++i) {
    Pack packs[kPlaces];
    GRT_UNROLL
    for (uint32_t q = 0; q < kPlaces; ++q) {
      if constexpr (kPlaces <= kTilesAtOnce) {
        packs[q] = tiles[q].pack[i / 2][i % 2];
      } else {
        packs[q] = {};
        if ((w.receive1 >> PeerAt<kPlaces>(w, q) & 1) != 0) {
          packs[q] =
              GetPack(b, TileLaneAt(w, w.rank, channel, lines.slot, 0, PeerAt<kPlaces>(w, q)), t,
                      i / 2, i % 2);
        }
      }
    }
    GRT_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      uint64_t words[kPlaces];
      GRT_UNROLL
      for (uint32_t q = 0; q < kPlaces; ++q) words[q] = packs[q].word[half];
      uint64_t& word = own.pack[i / 2][i % 2].word[half];
      word = SumOf<T>(w, words, word, scalars);
    }
  }
  if (shards) {
    GRT_UNROLL
    for (uint32_t i = 0; i < kPlaces; ++i) {
      const uint32_t p = PeerTo(w, i);
      if ((w.send2 >> p & 1) != 0)
        PutTile(b, TileLaneAt(w, p, channel, lines.slot, 1, w.rank), t, lines.flags, own);
    }
  }
  if (!writes) return true;
  char* const out = w.out + (shards ? OutAt(w, w.rank) : 0);
  StoreTile(b, IsEven(w, out, 0), out + at * kTileBytes, bytes, own);
  return true;
}

template <uint32_t kPlaces, typename Block>
GRT_HD inline void PlaceSlowly(Block& b, const Work& w, uint64_t at, uint32_t group, uint32_t first,
                               const Tile (&tiles)[kPlaces]) {
  Tile some[kPlaces];
  for (uint32_t i = 0; i < kPlaces; ++i) some[i] = tiles[i];
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const uint32_t p = PeerAt<kPlaces>(w, first + i);
    if ((group >> p & 1) == 0) continue;
    StoreTileSlowly(b, w.out + OutAt(w, p) + at * kTileBytes, TileBytes(w, p, at), &some[i]);
  }
}

// Places tile t of `phase` from the ranks in `from`, without combining. False: data has not
// arrived.
template <uint32_t kRanks, typename Block>
GRT_HD inline bool PlaceTile(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                             uint32_t phase, uint32_t from, uint32_t t, uint32_t polls) {
  constexpr uint32_t kPlaces = kRanks - 1 < kTilesAtOnce ? kRanks - 1 : kTilesAtOnce;
  const uint64_t at = lines.first + t;
  if (kRanks - 1 > kPlaces) {  // wait for all tiles before placing the first
    while (!b.AllOfWarp(HasArrivedTile(b, w, channel, lines, phase, from, t))) {
      if (polls-- == 0) return false;
    }
  }
  for (uint32_t first = 0; first + 1 < w.ranks; first += kPlaces) {
    Tile tiles[kPlaces];
    uint32_t group = 0;
    for (uint32_t place = first; place < first + kPlaces && place + 1 < w.ranks; ++place) {
      const uint32_t p = PeerAt<kPlaces>(w, place);
      if ((from >> p & 1) != 0 && TileBytes(w, p, at) != 0) group |= 1u << p;
    }
    while (group != 0 && !GetTiles<kPlaces>(b, w, channel, lines, phase, group, first, t, tiles)) {
      if (polls-- == 0) return false;
    }
    if (IsEven(w, w.out, w.out_stride)) {
      GRT_UNROLL
      for (uint32_t i = 0; i < kPlaces; ++i) {
        const uint32_t p = PeerAt<kPlaces>(w, first + i);
        if ((group >> p & 1) == 0) continue;
        StoreEvenTile(b, w.out + OutAt(w, p) + at * kTileBytes, TileBytes(w, p, at), tiles[i]);
      }
    } else {
      PlaceSlowly(b, w, at, group, first, tiles);
    }
  }
  return true;
}

// Phase 1 of tile t of a broadcast in shards: a rank sends the shard that it gets from the root on
// to all others but the root; the root copies its input to its output.
template <typename Block>
GRT_HD inline bool HandOnTile(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                              uint32_t t, uint32_t polls) {
  const uint64_t at = lines.first + t;
  const bool is_root = w.receive1 == 0;
  const uint32_t bytes = TileBytes(w, w.rank, at);
  if (bytes != 0) {
    Tile tile;
    const char* const lane = TileLaneAt(w, w.rank, channel, lines.slot, 0, w.peer);
    for (; !b.AllOfWarp(PeekTile(b, lane, t, lines.flags)); --polls) {
      if (polls == 0) return false;
    }
    GetTile(b, lane, t, &tile);
    OpenTile(b.Lane(), &tile);
    for (uint32_t i = 0; i + 1 < w.ranks; ++i) {
      const uint32_t p = PeerTo(w, i);
      if ((w.send2 >> p & 1) != 0)
        PutTile(b, TileLaneAt(w, p, channel, lines.slot, 1, w.rank), t, lines.flags, tile);
    }
    StoreTile(b, IsEven(w, w.out, w.out_stride), w.out + OutAt(w, w.rank) + at * kTileBytes, bytes,
              tile);
  }
  if (!is_root || w.in == w.out) return true;
  for (uint32_t p = 0; p < w.ranks; ++p) {
    const uint32_t all = TileBytes(w, p, at);
    if (all == 0) continue;
    Tile tile;
    LoadTile(b, IsEven(w, w.in, w.in_stride), w.in + InAt(w, p) + at * kTileBytes, all, &tile);
    StoreTile(b, IsEven(w, w.out, w.out_stride), w.out + OutAt(w, p) + at * kTileBytes, all, tile);
  }
  return true;
}

// Phase 1 of tile t: when all ranks' data has arrived, combines or places it (and sends the sum).
// False: data has not arrived.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline bool TakeTile(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                            uint32_t t, uint32_t polls) {
  if constexpr (!std::is_same_v<T, MoveOnly>) {
    if ((w.flags & kReduces) != 0) return ReduceTile<T, kRanks>(b, w, channel, lines, t, polls);
  }
  if ((w.flags & kTwoPhase) != 0) return HandOnTile(b, w, channel, lines, t, polls);
  if (!PlaceTile<kRanks>(b, w, channel, lines, 0, w.receive1, t, polls)) return false;
  if ((w.flags & kOwn) == 0) return true;
  const uint64_t begin = (lines.first + t) * kTileBytes;
  const char* const from = w.in + InAt(w, w.rank) + begin;
  char* const to = w.out + OutAt(w, w.rank) + begin;
  if (from == to) return true;
  Tile own;
  const uint32_t bytes = TileBytes(w, w.rank, lines.first + t);
  LoadTile(b, IsEven(w, w.in, w.in_stride), from, bytes, &own);
  StoreTile(b, IsEven(w, w.out, w.out_stride), to, bytes, own);
  return true;
}

// LL128 as ll_device.h uses it.
struct TileWay {
  static constexpr uint32_t kBytes = kTileBytes;
  // The warp's first tile for each peer, loaded ahead; for more than kTilesAtOnce peers Send loads
  // it, since registers cannot hold them all.
  template <uint32_t kRanks>
  struct Ahead {
    Tile tiles[kRanks - 1 <= kTilesAtOnce ? kRanks - 1 : 1];
  };
  template <typename Block>
  GRT_HD static uint32_t First(Block& b) {
    return b.Warp();
  }
  template <typename Block>
  GRT_HD static uint32_t Stride(Block& b) {
    return b.Warps();
  }
  template <uint32_t kPlaces, typename Block>
  GRT_HD static void LoadAll(Block& b, const Work& w, const Lines& lines, uint32_t t,
                             Tile (&tiles)[kPlaces]) {
    const uint64_t at = lines.first + t;
    if (IsEven(w, w.in, w.in_stride)) {
      GRT_UNROLL
      for (uint32_t q = 0; q < kPlaces; ++q) {
        const uint32_t p = PeerTo(w, q);
        if ((w.send1 >> p & 1) == 0) continue;
        LoadEvenTile(b, w.in + InAt(w, p) + at * kTileBytes, TileBytes(w, p, at), &tiles[q]);
      }
    } else {
      Tile some[kPlaces];
      for (uint32_t q = 0; q < kPlaces; ++q) {
        const uint32_t p = PeerTo(w, q);
        if ((w.send1 >> p & 1) == 0) continue;
        LoadTileSlowly(b, w.in + InAt(w, p) + at * kTileBytes, TileBytes(w, p, at), &some[q]);
      }
      GRT_UNROLL
      for (uint32_t q = 0; q < kPlaces; ++q) tiles[q] = some[q];
    }
  }
  template <uint32_t kPlaces, typename Block>
  GRT_HD static void PutAll(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                            uint32_t t, const Tile (&tiles)[kPlaces]) {
    GRT_UNROLL
    for (uint32_t q = 0; q < kPlaces; ++q) {
      const uint32_t p = PeerTo(w, q);
      if ((w.send1 >> p & 1) == 0 || TileBytes(w, p, lines.first + t) == 0) continue;
      PutTile(b, TileLaneAt(w, p, channel, lines.slot, 0, w.rank), t, lines.flags, tiles[q]);
    }
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static void Load(Block& b, const Work& w, const Lines& lines, Ahead<kRanks>* ahead) {
    if constexpr (kRanks - 1 <= kTilesAtOnce) {
      if (b.Warp() < lines.count) LoadAll(b, w, lines, b.Warp(), ahead->tiles);
    }
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static void Send(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                          const Ahead<kRanks>& ahead) {
    if constexpr (kRanks - 1 <= kTilesAtOnce) {
      if (b.Warp() < lines.count) PutAll(b, w, channel, lines, b.Warp(), ahead.tiles);
      for (uint32_t t = b.Warp() + b.Warps(); t < lines.count; t += b.Warps()) {
        Tile tiles[kRanks - 1];
        LoadAll(b, w, lines, t, tiles);
        PutAll(b, w, channel, lines, t, tiles);
      }
    } else {
      for (uint32_t t = b.Warp(); t < lines.count; t += b.Warps()) {
        for (uint32_t i = 0; i + 1 < w.ranks; ++i) {
          const uint32_t p = PeerTo(w, i);
          const uint32_t bytes = TileBytes(w, p, lines.first + t);
          if ((w.send1 >> p & 1) == 0 || bytes == 0) continue;
          Tile tile;
          LoadTile(b, IsEven(w, w.in, w.in_stride),
                   w.in + InAt(w, p) + (lines.first + t) * kTileBytes, bytes, &tile);
          PutTile(b, TileLaneAt(w, p, channel, lines.slot, 0, w.rank), t, lines.flags, tile);
        }
      }
    }
  }
  template <typename T, uint32_t kRanks, typename Block>
  GRT_HD static bool Take(Block& b, const Work& w, uint32_t channel, const Lines& lines, uint32_t t,
                          uint32_t polls) {
    return TakeTile<T, kRanks>(b, w, channel, lines, t, polls);
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static bool TakeSum(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                             uint32_t t, uint32_t polls) {
    return PlaceTile<kRanks>(b, w, channel, lines, 1, w.receive2, t, polls);
  }
  template <typename Block>
  GRT_HD static bool Arrived(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                             uint32_t phase, uint32_t t) {
    return b.AllOfWarp(
        HasArrivedTile(b, w, channel, lines, phase, phase == 0 ? w.receive1 : w.receive2, t));
  }
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_TILE_DEVICE_H_
