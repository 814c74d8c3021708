// LL: 8 bytes of data and their flags are one store, so the reader gets both in one hop, without a
// fence.
//
// Thread rule: as ll_common_device.h; each line belongs to one thread. Functions that return bool
// return false if data has not arrived.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_LINE_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_LINE_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/protocol/ll_common_device.h"

namespace gordian::runtime::cuda {

// Bytes of a line of block p; 0 where the block has ended.
GRT_HD inline uint32_t LineBytes(const Work& w, uint32_t p, uint64_t line) {
  const uint64_t bytes = BlockBytes(w, p);
  return line * 8 >= bytes ? 0 : static_cast<uint32_t>(Least(8, bytes - line * 8));
}

// Whether a rank sends the same block to all. One that sends nothing may have no input.
GRT_HD inline bool SendsSame(const Work& w) { return w.in_stride == 0 && w.send1 != 0; }

// Sends line l with the same word to all in `peers`. Does not unroll the loop for many ranks: their
// addresses would take too many registers.
template <uint32_t kRanks>
GRT_HD inline void StoreToAll(const Work& w, uint32_t channel, const Lines& lines, uint32_t phase,
                              uint32_t peers, uint32_t l, uint64_t word) {
#ifdef __CUDACC__
#pragma unroll(kRanks <= 4 ? kRanks : 1)
#endif
  for (uint32_t i = 0; i < kRanks - 1; ++i) {
    const uint32_t p = PeerTo(w, i);
    if ((peers >> p & 1) == 0) continue;
    StoreLine(LaneAt(w, p, channel, lines.slot, phase, w.rank) + l, word, lines.flags);
  }
}

// Sends the channel's lines of phase 1. `loaded`: this thread's first line, if SendsSame.
template <uint32_t kRanks, typename Block>
GRT_HD inline void SendLines(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                             uint64_t loaded) {
  const bool same = SendsSame(w);
  for (uint32_t l = b.Thread(); l < lines.count; l += b.Threads()) {
    const uint64_t line = lines.first + l;
    if (same) {
      const uint64_t word =
          l == b.Thread() ? loaded : LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
      StoreToAll<kRanks>(w, channel, lines, 0, w.send1, l, word);
      continue;
    }
    uint64_t words[kRanks - 1];
    // Load the words for all peers before storing the first.
    GRT_UNROLL
    for (uint32_t i = 0; i < kRanks - 1; ++i) {
      const uint32_t p = PeerTo(w, i);
      words[i] = 0;
      if ((w.send1 >> p & 1) != 0)
        words[i] = LoadBytes(w.in + InAt(w, p) + line * 8, LineBytes(w, p, line));
    }
    GRT_UNROLL
    for (uint32_t i = 0; i < kRanks - 1; ++i) {
      const uint32_t p = PeerTo(w, i);
      if ((w.send1 >> p & 1) == 0 || LineBytes(w, p, line) == 0) continue;
      StoreLine(LaneAt(w, p, channel, lines.slot, 0, w.rank) + l, words[i], lines.flags);
    }
  }
}

// Loads line l of the peers in `from`. False: one has not arrived. Issues four loads at a time,
// since a single load would wait for the one before it.
template <uint32_t kRanks>
GRT_HD inline bool LoadLines(const Work& w, uint32_t channel, const Lines& lines, uint32_t phase,
                             uint32_t from, uint32_t l, uint64_t* words) {
  constexpr uint32_t kTogether = kRanks < 4 ? kRanks : 4;
  bool arrived = true;
  GRT_UNROLL
  for (uint32_t first = 0; first < kRanks; first += kTogether) {
    LlLine got[kTogether];
    GRT_UNROLL
    for (uint32_t i = 0; i < kTogether; ++i) {
      got[i] = LoadLineIf((from >> (first + i) & 1) != 0,
                          LaneAt(w, w.rank, channel, lines.slot, phase, first + i) + l);
    }
    GRT_UNROLL
    for (uint32_t i = 0; i < kTogether; ++i) {
      const bool has = Carries(got[i], lines.flags, &words[first + i]);
      arrived = arrived && (has || (from >> (first + i) & 1) == 0);
    }
  }
  return arrived;
}

// Phase 1 of line l: when all ranks' data has arrived, combines or places it (and sends the sum).
template <typename T, uint32_t kRanks>
GRT_HD inline bool TakeLine(const Work& w, uint32_t channel, const Lines& lines, uint32_t l,
                            uint32_t polls) {
  const uint64_t line = lines.first + l;
  const bool shards = (w.flags & kTwoPhase) != 0;
  const uint32_t bytes = LineBytes(w, w.rank, line);
  if (bytes == 0) return true;  // behind the end of the own shard: no rank sends it
  uint64_t words[kRanks] = {};
  [[maybe_unused]] uint64_t scalars[std::is_same_v<T, AnyType> ? kRanks : 1];
  uint64_t own = 0;
  if ((w.flags & kOwn) != 0) own = LoadBytes(w.in + InAt(w, w.rank) + line * 8, bytes);
  for (;; --polls) {
    bool arrived = LoadLines<kRanks>(w, channel, lines, 0, w.receive1, l, words);
    if constexpr (std::is_same_v<T, AnyType>) {
      if (IsPreMultiplied(w) && !TakeScalars(w, channel, lines, scalars)) arrived = false;
    }
    if (arrived) break;
    if (polls == 0) return false;
  }
  if ((w.flags & kReduces) == 0) {
    GRT_UNROLL
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((w.receive1 >> p & 1) == 0) continue;
      StoreBytes(w.out + OutAt(w, p) + line * 8, words[p], bytes);
    }
    if ((w.flags & kOwn) != 0) {
      // Copy only now: the lines that have arrived show that the others are at this operation.
      char* to = w.out + OutAt(w, w.rank) + line * 8;
      if (to != w.in + InAt(w, w.rank) + line * 8) StoreBytes(to, own, bytes);
    }
    return true;
  }
  const bool writes = (w.flags & kWritesOutput) != 0;
  if (!writes && !shards) return true;  // a leaf of a reduction receives nothing
  GRT_UNROLL
  for (uint32_t p = 0; p < kRanks; ++p) {
    if (p == w.rank) words[p] = own;
  }
  const uint64_t sum = Reduce<T>(words, w.receive1 | 1u << w.rank, w.type, w.op, w.ranks, scalars);
  if (writes) StoreBytes(w.out + (shards ? OutAt(w, w.rank) : 0) + line * 8, sum, bytes);
  if (shards) StoreToAll<kRanks>(w, channel, lines, 1, w.send2, l, sum);
  return true;
}

// Phase 2 of line l of all shards but the own.
template <uint32_t kRanks>
GRT_HD inline bool TakeLineOfSums(const Work& w, uint32_t channel, const Lines& lines, uint32_t l,
                                  uint32_t polls) {
  const uint64_t line = lines.first + l;
  uint64_t words[kRanks] = {};
  uint32_t from = w.receive2;
  for (uint32_t p = 0; p < kRanks; ++p) {
    if (p < w.ranks && LineBytes(w, p, line) == 0) from &= ~(1u << p);
  }
  for (; !LoadLines<kRanks>(w, channel, lines, 1, from, l, words); --polls) {
    if (polls == 0) return false;
  }
  GRT_UNROLL
  for (uint32_t p = 0; p < kRanks; ++p) {
    if ((w.receive2 >> p & 1) == 0) continue;
    const uint32_t bytes = LineBytes(w, p, line);
    if (bytes != 0) StoreBytes(w.out + OutAt(w, p) + line * 8, words[p], bytes);
  }
  return true;
}

// Whether line l has all that `phase` needs of it.
GRT_HD inline bool HasArrived(const Work& w, uint32_t channel, const Lines& lines, uint32_t phase,
                              uint32_t l) {
  const uint32_t from = phase == 0 ? w.receive1 : w.receive2;
  bool arrived = true;
  for (uint32_t p = 0; p < w.ranks; ++p) {
    if ((from >> p & 1) == 0 || LineBytes(w, phase == 0 ? w.rank : p, lines.first + l) == 0)
      continue;
    uint64_t word;
    if (!LoadLine(LaneAt(w, w.rank, channel, lines.slot, phase, p) + l, lines.flags, &word))
      arrived = false;
  }
  return arrived;
}

// LL as ll_device.h uses it.
struct LineWay {
  static constexpr uint32_t kBytes = kLineBytes;
  template <uint32_t kRanks>
  struct Ahead {
    uint64_t word;
  };
  template <typename Block>
  GRT_HD static uint32_t First(Block& b) {
    return b.Thread();
  }
  template <typename Block>
  GRT_HD static uint32_t Stride(Block& b) {
    return b.Threads();
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static void Load(Block& b, const Work& w, const Lines& lines, Ahead<kRanks>* ahead) {
    ahead->word = 0;
    if (!SendsSame(w) || b.Thread() >= lines.count) return;
    const uint64_t line = lines.first + b.Thread();
    ahead->word = LoadBytes(w.in + line * 8, LineBytes(w, 0, line));
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static void Send(Block& b, const Work& w, uint32_t channel, const Lines& lines,
                          const Ahead<kRanks>& ahead) {
    SendLines<kRanks>(b, w, channel, lines, ahead.word);
  }
  template <typename T, uint32_t kRanks, typename Block>
  GRT_HD static bool Take(Block&, const Work& w, uint32_t channel, const Lines& lines, uint32_t l,
                          uint32_t polls) {
    return TakeLine<T, kRanks>(w, channel, lines, l, polls);
  }
  template <uint32_t kRanks, typename Block>
  GRT_HD static bool TakeSum(Block&, const Work& w, uint32_t channel, const Lines& lines,
                             uint32_t l, uint32_t polls) {
    return TakeLineOfSums<kRanks>(w, channel, lines, l, polls);
  }
  template <typename Block>
  GRT_HD static bool Arrived(Block&, const Work& w, uint32_t channel, const Lines& lines,
                             uint32_t phase, uint32_t l) {
    return HasArrived(w, channel, lines, phase, l);
  }
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_LL_LINE_DEVICE_H_
