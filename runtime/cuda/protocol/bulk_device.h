// Bulk: a writer stores chunks in the reader's staging, or directly in its output if the reader
// offered that, and announces them by a counter behind a fence. Run-to-completion steps (probe,
// body, commit); between steps a channel keeps only its step counter.
//
//   turn t:  scatter chunk t;  gather chunk t - 2W;  middle: combine or place chunk t - W
//            (W = kLookAhead)
//
// The block announces the chunk that it scattered together with the one that the middle step hands
// on, behind one fence: until then the links carry the data while the block gathers and loads. If
// the gather or the middle step is not ready, the block announces at once.
//
// A one-phase operation has no gather. In a two-phase one (all-reduce; broadcast and reduce among
// more than two) rank p's block of phase 1 is its shard; the middle step hands the own shard on. A
// root has none: it sends the message once, in shards, or gets it once in a reduce. By the order of
// turns, and with staging for more than W chunks, every wait is for a step with a smaller measure,
// so the step with the least measure over all ranks can always run: docs/runtime-cuda.md has the
// argument.
//
// Counters are absolute and only grow (modulo 2^32), each with one writer, so a repeated
// announcement is harmless. Every operation uses the same chunk numbers for all pairs, even for
// pairs that exchange nothing: at its end a channel gives credit for all of them.
//
// Sizes in bytes. Thread rule: as ll_device.h. Errors: none; see help_device.h.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/protocol/ll_device.h"
#include "runtime/cuda/protocol/reduce_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// One channel of a bulk operation. A block looks these values up once: looking them up in each step
// would take a large part of the step's time.
struct Bulk {
  uint64_t begin;  // the channel's part of each block, [begin, end); may lie behind the block's end
  uint64_t end;
  uint32_t base;    // number of its first chunk
  uint32_t number;  // bulk operations that the channel has carried, + 1: the flag of offers
  uint32_t doing;   // operations of any way that the channel has carried, + 1
  uint32_t chunks;
  uint32_t scattered = 0;  // the scattered chunk + 1 that is not announced yet; 0: none
};

GRT_HD inline Bulk BulkOf(const Work& w, uint32_t channel) {
  const ChannelState* state = StateAt(w, channel);
  return {w.part * channel, w.part * (channel + 1),          state->chunks,
          state->bulks + 1, state->lines + state->bulks + 1, ChunkCount(w, channel)};
}

// Where chunk `index` of a channel lies in each block, and how much of block p it covers.
GRT_HD inline uint64_t ChunkBegin(const Work& w, const Bulk& bulk, uint32_t index) {
  return bulk.begin + uint64_t{index} * w.chunk;
}
GRT_HD inline uint64_t ChunkBytes(const Work& w, const Bulk& bulk, uint32_t index, uint32_t p) {
  const uint64_t begin = ChunkBegin(w, bulk, index);
  const uint64_t end = Least(Least(begin + w.chunk, bulk.end), BlockBytes(w, p));
  return end > begin ? end - begin : 0;
}

// The kInFlight words of 16 bytes that a thread copies at once, of `packs`: `first`, and every
// b.Threads()-th behind it. kStaged: `from` is staging, which peers write.
template <bool kStaged, uint32_t kInFlight, typename Block>
GRT_HD inline void LoadPacks(Block& b, Pack (&pack)[kInFlight], const char* from, uint32_t first,
                             uint32_t packs) {
  GRT_UNROLL
  for (uint32_t u = 0; u < kInFlight; ++u) {
    const uint32_t k = first + u * b.Threads();
    if (k < packs)
      pack[u] = kStaged ? LoadStaged(from + uint64_t{k} * 16) : LoadPack(from + uint64_t{k} * 16);
  }
}
template <uint32_t kInFlight, typename Block>
GRT_HD inline void StorePacks(Block& b, char* to, const Pack (&pack)[kInFlight], uint32_t first,
                              uint32_t packs) {
  GRT_UNROLL
  for (uint32_t u = 0; u < kInFlight; ++u) {
    const uint32_t k = first + u * b.Threads();
    if (k < packs) StorePack(to + uint64_t{k} * 16, pack[u]);
  }
}

// All threads copy at most a chunk, so that 32 bits count its bytes.
template <bool kStaged, typename Block>
GRT_APART GRT_HD void CopyChunk(Block& b, char* to, const char* from, uint64_t bytes) {
  constexpr uint32_t kInFlight = 4;
  uint64_t at = 0;
  if (IsAligned(to, 16) && IsAligned(from, 16)) {
    const auto packs = static_cast<uint32_t>(bytes / 16);
    for (uint32_t i = b.Thread(); i < packs; i += b.Threads() * kInFlight) {
      Pack pack[kInFlight];
      LoadPacks<kStaged>(b, pack, from, i, packs);
      StorePacks(b, to, pack, i, packs);
    }
    at = uint64_t{packs} * 16;
  }
  for (uint64_t i = at + b.Thread() * 8; i < bytes; i += uint64_t{b.Threads()} * 8) {
    const auto left = static_cast<uint32_t>(Least(8, bytes - i));
    const uint64_t word = kStaged ? LoadStagedBytes(from + i, left) : LoadBytes(from + i, left);
    StoreBytes(to + i, word, left);
  }
}

// Several copies of `packs` 16-byte words at once; none where `to` is null.
template <bool kStaged, uint32_t kCopies, typename Block>
GRT_APART GRT_HD void CopyPacks(Block& b, char* const (&to)[kCopies],
                                const char* const (&from)[kCopies], uint32_t packs) {
  constexpr uint32_t kInFlight = 2;
  for (uint32_t begin = b.Thread(); begin < packs; begin += b.Threads() * kInFlight) {
    Pack pack[kInFlight][kCopies];
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = begin + u * b.Threads();
      GRT_UNROLL
      for (uint32_t i = 0; i < kCopies; ++i) {
        const char* const at = from[i] + uint64_t{k} * 16;
        if (k < packs && to[i] != nullptr) pack[u][i] = kStaged ? LoadStaged(at) : LoadPack(at);
      }
    }
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = begin + u * b.Threads();
      GRT_UNROLL
      for (uint32_t i = 0; i < kCopies; ++i) {
        if (k < packs && to[i] != nullptr) StorePack(to[i] + uint64_t{k} * 16, pack[u][i]);
      }
    }
  }
}

// Copies a chunk for each peer p in `peers`, from from_of(p) to to_of(p), of bytes_of(p); three
// chunks at once if they have the same size.
template <bool kStaged, uint32_t kRanks, typename Block, typename From, typename To, typename Bytes>
GRT_HD inline void CopyChunks(Block& b, const Work& w, uint32_t peers, From&& from_of, To&& to_of,
                              Bytes&& bytes_of) {
  constexpr uint32_t kCopies = kRanks <= 2 ? 1 : 3;
  for (uint32_t first = 1; first < w.ranks; first += kCopies) {
    const char* from[kCopies] = {};
    char* to[kCopies] = {};
    uint64_t each = 0;
    bool alike = kCopies > 1;
    for (uint32_t d = first; kCopies > 1 && d < first + kCopies && d < w.ranks; ++d) {
      const uint32_t p = (w.rank + d) % w.ranks;  // each rank begins with another peer
      if ((peers >> p & 1) == 0 || bytes_of(p) == 0) continue;
      from[d - first] = from_of(p);
      to[d - first] = to_of(p);
      if (each == 0) each = bytes_of(p);
      alike = alike && bytes_of(p) == each && each % 16 == 0 && IsAligned(from_of(p), 16) &&
              IsAligned(to_of(p), 16);
    }
    if (alike) {
      CopyPacks<kStaged, kCopies>(b, to, from, static_cast<uint32_t>(each / 16));
      continue;
    }
    for (uint32_t d = first; d < first + kCopies && d < w.ranks; ++d) {
      const uint32_t p = (w.rank + d) % w.ranks;
      if ((peers >> p & 1) != 0) CopyChunk<kStaged>(b, to_of(p), from_of(p), bytes_of(p));
    }
  }
}

// Combines one chunk of every contributor, and stores the result in the own output (if `out`) and
// in every target.
template <typename T, uint32_t kRanks, uint32_t kInFlight, typename Block>
GRT_APART GRT_HD void ReducePacks(Block& b, const Work& w, const char* const (&from)[kRanks],
                                  char* out, uint32_t present, uint32_t targets, uint32_t packs,
                                  const uint64_t* scalars) {
  for (uint32_t i = b.Thread(); i < packs; i += b.Threads() * kInFlight) {
    Pack pack[kInFlight][kRanks] = {};
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = i + u * b.Threads();
      GRT_UNROLL
      for (uint32_t p = 0; p < kRanks; ++p) {
        if (k < packs && (present >> p & 1) != 0)
          pack[u][p] = LoadStaged(from[p] + uint64_t{k} * 16);
      }
    }
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = i + u * b.Threads();
      if (k >= packs) continue;
      Pack sum;
      GRT_UNROLL
      for (uint32_t half = 0; half < 2; ++half) {
        uint64_t words[kRanks];
        GRT_UNROLL
        for (uint32_t p = 0; p < kRanks; ++p) words[p] = pack[u][p].word[half];
        sum.word[half] = Reduce<T>(words, present, w.type, w.op, w.ranks, scalars);
      }
      if (out != nullptr) StorePack(out + uint64_t{k} * 16, sum);
      GRT_UNROLL
      for (uint32_t p = 0; p < kRanks; ++p) {
        if ((targets >> p & 1) != 0) StorePack(b.SumTargets()[p] + uint64_t{k} * 16, sum);
      }
    }
  }
}

template <typename T, uint32_t kRanks, uint32_t kInFlight, typename Block>
GRT_HD inline void ReduceChunk(Block& b, const Work& w, uint32_t channel, uint32_t number,
                               uint64_t begin, uint64_t bytes, char* out) {
  const uint32_t present = w.receive1 | ((w.flags & kOwn) != 0 ? 1u << w.rank : 0);
  const char* own = w.in + InAt(w, w.rank) + begin;
  const char* from[kRanks];
  bool aligned = IsAligned(own, 16) && (out == nullptr || IsAligned(out, 16));
  GRT_UNROLL
  for (uint32_t p = 0; p < kRanks; ++p) {
    from[p] = p == w.rank ? own : p < w.ranks ? StageAt(w, w.rank, channel, 0, p, number) : nullptr;
    if ((w.send2 >> p & 1) != 0 && !IsAligned(b.SumTargets()[p], 16)) aligned = false;
  }
  const uint32_t packs = aligned ? static_cast<uint32_t>(bytes / 16) : 0;
  uint64_t scalars[std::is_same_v<T, AnyType> ? kRanks : 1];
  if constexpr (std::is_same_v<T, AnyType>) {
    for (uint32_t p = 0; p < kRanks && IsPreMultiplied(w); ++p) {
      scalars[p] = p == w.rank ? w.scalar
                               : Load<kSystem, kRelaxed>(
                                     &FlagsAt(w, w.rank, channel)->scalar[number % kStageSlots][p]);
    }
  }
  ReducePacks<T, kRanks, kInFlight>(b, w, from, out, present, w.send2, packs, scalars);
  for (uint64_t i = uint64_t{packs} * 16 + b.Thread() * 8; i < bytes;
       i += uint64_t{b.Threads()} * 8) {
    const auto left = static_cast<uint32_t>(Least(8, bytes - i));
    uint64_t words[kRanks] = {};
    GRT_UNROLL
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((present >> p & 1) != 0) words[p] = LoadStagedBytes(from[p] + i, left);
    }
    const uint64_t sum = Reduce<T>(words, present, w.type, w.op, w.ranks, scalars);
    if (out != nullptr) StoreBytes(out + i, sum, left);
    GRT_UNROLL
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((w.send2 >> p & 1) != 0) StoreBytes(b.SumTargets()[p] + i, sum, left);
    }
  }
}

// Whether this rank may write chunk `index` of `phase` for peer p, and where. *direct: in p's
// output.
GRT_HD inline bool FindTarget(const Work& w, uint32_t channel, const Bulk& bulk, uint32_t phase,
                              uint32_t p, uint32_t index, char** target, bool* direct) {
  const bool placed = (w.flags & kTwoPhase) != 0 ? phase == 1 : !Reduces(w.kind);
  *direct = false;
  if (placed && (w.flags & kOffers) != 0) {
    uint64_t offer;
    if (!LoadLine(&FlagsAt(w, w.rank, channel)->offer[p], FlagsOf(bulk.number, w.signature),
                  &offer))
      return false;
    if (offer != 0) {
      *direct = true;
      *target = w.base[p] + (offer - 1) + OutAt(w, w.rank) + ChunkBegin(w, bulk, index);
      return true;
    }
  }
  const uint32_t number = bulk.base + index;
  const uint32_t consumed = Load<kSystem, kRelaxed>(&FlagsAt(w, w.rank, channel)->credit[phase][p]);
  if (static_cast<int32_t>(consumed - Wanted(w, bulk.base, number)) < 0) return false;
  *target = StageAt(w, p, channel, phase, w.rank, number);
  return true;
}

GRT_HD inline bool IsStaged(const Work& w, uint32_t channel, uint32_t phase, uint32_t p,
                            uint32_t number) {
  const uint32_t ready = Load<kSystem, kAcquire>(&FlagsAt(w, w.rank, channel)->ready[phase][p]);
  return static_cast<int32_t>(ready - (number + 1)) >= 0;
}

// Stores a chunk's signature and scalar beside p's staging, before the chunk is announced. Only in
// phase 1: that is enough to detect members that disagree about the operation.
GRT_HD inline void SignChunk(const Work& w, uint32_t channel, const Bulk& bulk, uint32_t p,
                             uint32_t index) {
  ChannelFlags* flags = FlagsAt(w, p, channel);
  const uint32_t slot = (bulk.base + index) % kStageSlots;
  if (index == 0) Store<kSystem, kRelaxed>(&flags->sign[slot][w.rank], w.signature);
  if (IsPreMultiplied(w)) Store<kSystem, kRelaxed>(&flags->scalar[slot][w.rank], w.scalar);
}
GRT_HD inline bool IsSigned(const Work& w, uint32_t channel, const Bulk& bulk, uint32_t p,
                            uint32_t index) {
  if (index != 0) return true;
  return Load<kSystem, kRelaxed>(&FlagsAt(w, w.rank, channel)->sign[bulk.base % kStageSlots][p]) ==
         w.signature;
}

// Whether the writer announces the chunk. Of chunks that it writes to the output directly it
// announces only the operation's last: the reader reads none of them before.
GRT_HD inline bool IsTold(const Bulk& bulk, uint32_t index, bool direct) {
  return !direct || index + 1 == bulk.chunks;
}
GRT_HD inline void Tell(const Work& w, uint32_t channel, const Bulk& bulk, uint32_t phase,
                        uint32_t p, uint32_t index) {
  Store<kSystem, kRelaxed>(&FlagsAt(w, p, channel)->ready[phase][w.rank], bulk.base + index + 1);
}

// Calls call(p) for every rank p: each thread of warp `warp` for one rank, or the only thread of a
// block for all ranks.
template <typename Block, typename Call>
GRT_HD inline void ForRanks(Block& b, const Work& w, uint32_t warp, Call&& call) {
  if (b.Warps() == 1) {
    for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) call(p);
  } else if (b.Warp() == warp && b.Lane() < w.ranks) {
    call(b.Lane());
  }
}

// Warp 0 announces the scattered chunk, and chunk `summed` - 1 of phase 2 (0: none). The caller has
// made a barrier since the block wrote both.
template <typename Block>
GRT_HD inline void Announce(Block& b, const Work& w, uint32_t channel, Bulk* bulk,
                            uint32_t summed) {
  ForRanks(b, w, 0, [&](uint32_t p) {
    const bool straight = b.Straight(0)[p];
    const bool first = bulk->scattered != 0 && (w.send1 >> p & 1) != 0 &&
                       IsTold(*bulk, bulk->scattered - 1, straight);
    const bool second =
        summed != 0 && (w.send2 >> p & 1) != 0 && IsTold(*bulk, summed - 1, b.Straight(1)[p]);
    if (!first && !second) return;
    if (first && !straight) SignChunk(w, channel, *bulk, p, bulk->scattered - 1);
    Fence<kSystem>();
    if (first) Tell(w, channel, *bulk, 0, p, bulk->scattered - 1);
    if (second) Tell(w, channel, *bulk, 1, p, summed - 1);
  });
  bulk->scattered = 0;
}
// The same, with a barrier, for a block that does not continue with the middle step at once.
template <typename Block>
GRT_HD inline void AnnounceScattered(Block& b, const Work& w, uint32_t channel, Bulk* bulk) {
  if (bulk->scattered == 0) return;
  b.Sync();
  Announce(b, w, channel, bulk, 0);
}
// Warp `warp` gives the slot of chunk `index` back to its writers in `phase`. The caller has made a
// barrier since the block read the slot: the data is in registers or stored.
template <typename Block>
GRT_HD inline void GiveBack(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                            uint32_t phase, uint32_t index, uint32_t warp) {
  ForRanks(b, w, warp, [&](uint32_t p) {
    if (((phase == 0 ? w.receive1 : w.receive2) >> p & 1) == 0) return;
    Store<kSystem, kRelaxed>(&FlagsAt(w, p, channel)->credit[phase][w.rank], bulk.base + index + 1);
  });
}

// ArrivesDirect: whether peers write data that this rank only places to its output directly.
// PlacesDirect: whether that is phase 1's data.
GRT_HD inline bool ArrivesDirect(const Work& w) {
  return (w.flags & kOffers) != 0 && w.offered != 0;
}
GRT_HD inline bool PlacesDirect(const Work& w) {
  return (w.flags & kTwoPhase) == 0 && !Reduces(w.kind) && ArrivesDirect(w);
}

// Warp `warp` finds out whether this rank may write chunk `index` of `phase` for all peers in `to`,
// and where.
template <typename Block>
GRT_HD inline bool FindTargets(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                               uint32_t phase, uint32_t to, uint32_t index, uint32_t warp) {
  bool ready = true;
  ForRanks(b, w, warp, [&](uint32_t p) {
    if ((to >> p & 1) == 0) return;
    char* target = nullptr;
    bool straight = false;
    if (!FindTarget(w, channel, bulk, phase, p, index, &target, &straight)) ready = false;
    (phase == 0 ? b.Targets() : b.SumTargets())[p] = target;
    b.Straight(phase)[p] = straight;
  });
  return ready;
}
// Warp `warp` finds out whether the data for the middle step of chunk `index` has arrived (HasSums:
// for its gather step).
template <typename Block>
GRT_HD inline bool HasScattered(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                                uint32_t index, uint32_t warp) {
  const bool direct = PlacesDirect(w);
  if (direct && index + 1 != bulk.chunks) return true;
  bool ready = true;
  ForRanks(b, w, warp, [&](uint32_t p) {
    if ((w.receive1 >> p & 1) == 0) return;
    if (!IsStaged(w, channel, 0, p, bulk.base + index) ||
        (!direct && !IsSigned(w, channel, bulk, p, index)))
      ready = false;
  });
  return ready;
}
template <typename Block>
GRT_HD inline bool HasSums(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                           uint32_t index, uint32_t warp) {
  if (ArrivesDirect(w) && index + 1 != bulk.chunks) return true;
  bool ready = true;
  ForRanks(b, w, warp, [&](uint32_t p) {
    if ((w.receive2 >> p & 1) != 0 && !IsStaged(w, channel, 1, p, bulk.base + index)) ready = false;
  });
  return ready;
}

// The steps' copying, by all threads of `b`, which may be a part of a block. ScatterChunk: to the
// targets that FindTargets found.
template <uint32_t kRanks, typename Block>
GRT_HD inline void ScatterChunk(Block& b, const Work& w, const Bulk& bulk, uint32_t index) {
  char** const targets = b.Targets();
  const uint64_t begin = ChunkBegin(w, bulk, index);
  CopyChunks<false, kRanks>(
      b, w, w.send1, [&](uint32_t p) { return w.in + InAt(w, p) + begin; },
      [&](uint32_t p) { return targets[p]; },
      [&](uint32_t p) { return ChunkBytes(w, bulk, index, p); });
}

// Copies staged data to the own output and to every target of the middle step.
template <typename Block>
GRT_APART GRT_HD void SpreadChunk(Block& b, const Work& w, char* out, const char* from,
                                  uint64_t bytes) {
  constexpr uint32_t kInFlight = 4;
  bool aligned = IsAligned(out, 16);
  for (uint32_t p = 0; p < w.ranks; ++p) {
    if ((w.send2 >> p & 1) != 0 && !IsAligned(b.SumTargets()[p], 16)) aligned = false;
  }
  if (!aligned || bytes % 16 != 0) {
    CopyChunk<true>(b, out, from, bytes);
    for (uint32_t p = 0; p < w.ranks; ++p) {
      if ((w.send2 >> p & 1) != 0) CopyChunk<true>(b, b.SumTargets()[p], from, bytes);
    }
    return;
  }
  const auto packs = static_cast<uint32_t>(bytes / 16);
  for (uint32_t i = b.Thread(); i < packs; i += b.Threads() * kInFlight) {
    Pack pack[kInFlight];
    LoadPacks<true>(b, pack, from, i, packs);
    for (uint32_t d = 1; d < w.ranks; ++d) {
      const uint32_t p = (w.rank + d) % w.ranks;
      if ((w.send2 >> p & 1) == 0) continue;
      StorePacks(b, b.SumTargets()[p], pack, i, packs);
    }
    StorePacks(b, out, pack, i, packs);
  }
}

// Copies phase 1's data of chunk `index` to its place, without combining.
template <uint32_t kRanks, typename Block>
GRT_HD inline void PlaceChunk(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                              uint32_t index) {
  const uint64_t begin = ChunkBegin(w, bulk, index);
  const bool shards = (w.flags & kTwoPhase) != 0;
  if (!PlacesDirect(w) && !shards) {
    CopyChunks<true, kRanks>(
        b, w, w.receive1,
        [&](uint32_t p) { return StageAt(w, w.rank, channel, 0, p, bulk.base + index); },
        [&](uint32_t p) { return w.out + OutAt(w, p) + begin; },
        [&](uint32_t p) { return ChunkBytes(w, bulk, index, p); });
  } else if (shards && w.receive1 != 0) {
    const char* const stage = StageAt(w, w.rank, channel, 0, w.peer, bulk.base + index);
    SpreadChunk(b, w, w.out + OutAt(w, w.rank) + begin, stage, ChunkBytes(w, bulk, index, w.rank));
  }
  if ((w.flags & kOwn) == 0) return;
  // Copies all shards to a root's output; else the own block.
  const auto from = [&](uint32_t p) { return w.in + InAt(w, p) + begin; };
  const auto to = [&](uint32_t p) { return w.out + OutAt(w, p) + begin; };
  if (from(w.rank) == to(w.rank)) return;
  if (!shards)
    return CopyChunk<false>(b, to(w.rank), from(w.rank), ChunkBytes(w, bulk, index, w.rank));
  CopyChunks<false, kRanks>(b, w, OthersMask(w), from, to,
                            [&](uint32_t p) { return ChunkBytes(w, bulk, index, p); });
}

// Combines or places chunk `index`, and hands the result on.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline void CombineChunk(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                                uint32_t index) {
  if ((w.flags & kReduces) == 0) {
    PlaceChunk<kRanks>(b, w, channel, bulk, index);
    return;
  }
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint64_t begin = ChunkBegin(w, bulk, index);
  const uint64_t bytes = ChunkBytes(w, bulk, index, w.rank);
  char* out =
      (w.flags & kWritesOutput) == 0 ? nullptr : w.out + (shards ? OutAt(w, w.rank) : 0) + begin;
  // Few ranks get as many loads in flight as many ranks.
  ReduceChunk<T, kRanks, kMaxRanks / kRanks>(b, w, channel, bulk.base + index, begin, bytes, out);
}

template <uint32_t kRanks, typename Block>
GRT_HD inline void GatherChunk(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                               uint32_t index) {
  if (ArrivesDirect(w)) return;
  const uint64_t begin = ChunkBegin(w, bulk, index);
  CopyChunks<true, kRanks>(
      b, w, w.receive2,
      [&](uint32_t p) { return StageAt(w, w.rank, channel, 1, p, bulk.base + index); },
      [&](uint32_t p) { return w.out + OutAt(w, p) + begin; },
      [&](uint32_t p) { return ChunkBytes(w, bulk, index, p); });
}

template <uint32_t kRanks, typename Block>
GRT_HD inline bool ScatterStep(Block& b, const Work& w, uint32_t channel, Bulk* bulk,
                               uint32_t index) {
  if (w.send1 == 0) return true;
  if (!b.All(FindTargets(b, w, channel, *bulk, 0, w.send1, index, 0))) return false;
  ScatterChunk<kRanks>(b, w, *bulk, index);
  bulk->scattered = index + 1;
  return true;
}

template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline bool MiddleStep(Block& b, const Work& w, uint32_t channel, Bulk* bulk,
                              uint32_t index) {
  const bool there = HasScattered(b, w, channel, *bulk, index, 0);
  if (!b.All(FindTargets(b, w, channel, *bulk, 1, w.send2, index, 0) && there)) return false;
  CombineChunk<T, kRanks>(b, w, channel, *bulk, index);
  b.Sync();
  if (!PlacesDirect(w)) GiveBack(b, w, channel, *bulk, 0, index, 0);
  Announce(b, w, channel, bulk, index + 1);
  return true;
}

template <uint32_t kRanks, typename Block>
GRT_HD inline bool GatherStep(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                              uint32_t index) {
  if (w.receive2 == 0) return true;
  if (ArrivesDirect(w) && index + 1 != bulk.chunks) return true;
  if (!b.All(HasSums(b, w, channel, bulk, index, 0))) return false;
  if (ArrivesDirect(w)) return true;
  GatherChunk<kRanks>(b, w, channel, bulk, index);
  b.Sync();
  GiveBack(b, w, channel, bulk, 1, index, 0);
  return true;
}

// How many turns a channel takes.
GRT_HD inline uint32_t TurnsOf(const Work& w, const Bulk& bulk) {
  return bulk.chunks == 0 ? 0 : bulk.chunks + ((w.flags & kTwoPhase) != 0 ? 2 : 1) * kLookAhead;
}

// Stores for the writers where they may write to this rank's output directly.
template <typename Block>
GRT_HD inline void TellOffer(Block& b, const Work& w, uint32_t channel, const Bulk& bulk) {
  if ((w.flags & kOffers) == 0) return;
  const uint32_t writers = (w.flags & kTwoPhase) != 0 ? w.receive2 : w.receive1;
  ForRanks(b, w, 0, [&](uint32_t p) {
    if ((writers >> p & 1) == 0) return;
    StoreLine(&FlagsAt(w, p, channel)->offer[w.rank], w.offered, FlagsOf(bulk.number, w.signature));
  });
}

// Ends a channel: gives credit for all its chunks, and counts the operation.
template <typename Block>
GRT_HD inline void FinishBulk(Block& b, const Work& w, uint32_t channel, const Bulk& bulk) {
  b.Sync();  // all threads have read the counters
  ForRanks(b, w, 0, [&](uint32_t p) {
    if ((CreditMask(w) >> p & 1) == 0) return;
    ChannelFlags* flags = FlagsAt(w, p, channel);
    Store<kSystem, kRelaxed>(&flags->credit[0][w.rank], bulk.base + bulk.chunks);
    Store<kSystem, kRelaxed>(&flags->credit[1][w.rank], bulk.base + bulk.chunks);
  });
  if (b.Thread() == 0) {
    ChannelState* state = StateAt(w, channel);
    state->chunks = bulk.base + bulk.chunks;
    state->bulks = bulk.number;
    state->signature = w.signature;
  }
}

// Makes one step. pc = 3 * turn + {scatter, gather, middle}. It may leave a scattered chunk
// unannounced: then the same block makes the next step, or calls AnnounceScattered before it leaves
// the channel.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline StepResult StepBulk(Block& b, const Work& w, uint32_t channel, Bulk* bulk,
                                  uint32_t* pc) {
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint32_t turn = *pc / 3;
  if (turn >= TurnsOf(w, *bulk)) {
    FinishBulk(b, w, channel, *bulk);
    return StepResult::kDone;
  }
  if (*pc == 0) {
    TellDoing(b, w, channel, bulk->doing);
    if (!b.All(MayBegin(b, w, channel, *StateAt(w, channel)))) return StepResult::kNotReady;
    TellOffer(b, w, channel, *bulk);
  }
  bool ready = true;
  switch (*pc % 3) {
    case 0:
      if (turn < bulk->chunks) ready = ScatterStep<kRanks>(b, w, channel, bulk, turn);
      break;
    case 1: {
      const uint32_t index = turn - 2 * kLookAhead;
      if (shards && turn >= 2 * kLookAhead && index < bulk->chunks)
        ready = GatherStep<kRanks>(b, w, channel, *bulk, index);
      break;
    }
    default: {
      const uint32_t index = turn - kLookAhead;
      if (turn >= kLookAhead && index < bulk->chunks)
        ready = MiddleStep<T, kRanks>(b, w, channel, bulk, index);
      if (ready) AnnounceScattered(b, w, channel, bulk);
    }
  }
  if (!ready) {
    AnnounceScattered(b, w, channel, bulk);
    return StepResult::kNotReady;
  }
  ++*pc;
  return StepResult::kAdvanced;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_BULK_DEVICE_H_
