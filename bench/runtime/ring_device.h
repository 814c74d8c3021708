// All-reduce along a ring, in chunks that are staged at the next rank: NCCL's Ring algorithm with
// its Simple protocol, as DFCCL carries everything. As run-to-completion steps over this runtime's
// staging and counters, so that it can be compared with the runtime's own way under otherwise equal
// conditions.
//
// A chunk of every shard goes round twice: n - 1 times to be added up, n - 1 times to be handed
// out.
//   step 0            send        shard rank - 1
//   step 1 .. n - 2   recv, add, send
//   step n - 1        recv, add, keep, send     (the own shard is complete)
//   then n - 2        recv, keep, send
//   last              recv, keep
// Elements are added up in the order of the ring, not of the ranks: bits may differ from the
// runtime's. Averages are not there.
//
// Thread rule: as bulk_device.h, by which `w` was planned as a two-phase operation.
#ifndef GORDIAN_BENCH_RUNTIME_RING_DEVICE_H_
#define GORDIAN_BENCH_RUNTIME_RING_DEVICE_H_

#include <cstdint>

#include "runtime/cuda/protocol/bulk_device.h"

namespace gordian::runtime::cuda {

// `staged`, `in`: what is added up or copied, one of them may be null; `out`, `next`: where to,
// likewise.
template <typename T, typename Block>
GRT_APART GRT_HD void RingMove(Block& b, const Work& w, const char* staged, const char* in,
                               char* out, char* next, uint64_t bytes) {
  constexpr uint32_t kInFlight = 4;
  const bool aligned =
      (staged == nullptr || IsAligned(staged, 16)) && (in == nullptr || IsAligned(in, 16)) &&
      (out == nullptr || IsAligned(out, 16)) && (next == nullptr || IsAligned(next, 16));
  const auto packs = aligned ? static_cast<uint32_t>(bytes / 16) : 0;
  for (uint32_t i = b.Thread(); i < packs; i += b.Threads() * kInFlight) {
    Pack left[kInFlight] = {}, right[kInFlight] = {};
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = i + u * b.Threads();
      if (k >= packs) continue;
      if (staged != nullptr) left[u] = LoadStaged(staged + uint64_t{k} * 16);
      if (in != nullptr) right[u] = LoadPack(in + uint64_t{k} * 16);
    }
    GRT_UNROLL
    for (uint32_t u = 0; u < kInFlight; ++u) {
      const uint32_t k = i + u * b.Threads();
      if (k >= packs) continue;
      Pack sum = staged == nullptr ? right[u] : left[u];
      if (staged != nullptr && in != nullptr) {
        for (uint32_t half = 0; half < 2; ++half) {
          const uint64_t words[2] = {left[u].word[half], right[u].word[half]};
          sum.word[half] = Reduce<T>(words, 3, w.type, w.op, 2);
        }
      }
      if (out != nullptr) StorePack(out + uint64_t{k} * 16, sum);
      if (next != nullptr) StorePack(next + uint64_t{k} * 16, sum);
    }
  }
  for (uint64_t i = uint64_t{packs} * 16 + b.Thread() * 8; i < bytes;
       i += uint64_t{b.Threads()} * 8) {
    const auto some = static_cast<uint32_t>(Least(8, bytes - i));
    uint64_t words[2] = {0, 0};
    if (staged != nullptr) words[0] = LoadStagedBytes(staged + i, some);
    if (in != nullptr) words[1] = LoadBytes(in + i, some);
    const uint64_t sum = staged == nullptr ? words[1]
                         : in == nullptr   ? words[0]
                                           : Reduce<T>(words, 3, w.type, w.op, 2);
    if (out != nullptr) StoreBytes(out + i, sum, some);
    if (next != nullptr) StoreBytes(next + i, sum, some);
  }
}

// One step. pc: steps done, 2 n - 1 for each chunk.
template <typename T, typename Block>
GRT_HD inline StepResult StepRing(Block& b, const Work& w, uint32_t channel, const Bulk& bulk,
                                  uint32_t* pc) {
  const uint32_t n = w.ranks;
  const uint32_t each = 2 * n - 1;
  const uint32_t chunk = *pc / each, step = *pc % each;
  if (n > 1 && chunk < bulk.chunks) {
    const uint32_t next = (w.rank + 1) % n, previous = (w.rank + n - 1) % n;
    const bool receives = step > 0, sends = step + 1 < each;
    const uint32_t receive_number = bulk.base + chunk * (each - 1) + step - 1;
    const uint32_t send_number = bulk.base + chunk * (each - 1) + step;
    // The shard that this step is about: from the one before the own down, and round again.
    const uint32_t shard = (w.rank + 2 * n - 1 - step) % n;
    bool ready = true;
    if (b.Thread() == 0) {
      if (receives && !IsStaged(w, channel, 0, previous, receive_number)) ready = false;
      if (sends) {
        const uint32_t consumed =
            Load<kSystem, kRelaxed>(&FlagsAt(w, w.rank, channel)->credit[0][next]);
        if (static_cast<int32_t>(consumed - Wanted(w, bulk.base, send_number)) < 0) ready = false;
      }
    }
    if (!b.All(ready)) return StepResult::kNotReady;
    const uint64_t at = ChunkBegin(w, bulk, chunk);
    const uint64_t place = shard * w.block_bytes + at;
    RingMove<T>(b, w, receives ? StageAt(w, w.rank, channel, 0, previous, receive_number) : nullptr,
                step < n ? w.in + place : nullptr, step + 1 >= n ? w.out + place : nullptr,
                sends ? StageAt(w, next, channel, 0, w.rank, send_number) : nullptr,
                ChunkBytes(w, bulk, chunk, shard));
    b.Sync();
    if (b.Thread() == 0) {
      if (sends) {
        Fence<kSystem>();
        Store<kSystem, kRelaxed>(&FlagsAt(w, next, channel)->ready[0][w.rank], send_number + 1);
      }
      if (receives)
        Store<kSystem, kRelaxed>(&FlagsAt(w, previous, channel)->credit[0][w.rank],
                                 receive_number + 1);
    }
    ++*pc;
    return StepResult::kAdvanced;
  }
  b.Sync();  // all threads have read the counters
  const uint32_t end = bulk.base + bulk.chunks * (each - 1);
  for (uint32_t p = b.Thread(); p < n; p += b.Threads()) {
    if (p == w.rank) continue;
    Store<kSystem, kRelaxed>(&FlagsAt(w, p, channel)->credit[0][w.rank], end);
    Store<kSystem, kRelaxed>(&FlagsAt(w, p, channel)->credit[1][w.rank], end);
  }
  if (b.Thread() == 0) {
    ChannelState* state = StateAt(w, channel);
    state->chunks = end;
    state->bulks = bulk.number;
  }
  return StepResult::kDone;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_BENCH_RUNTIME_RING_DEVICE_H_
