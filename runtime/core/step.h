// The core state machine: an operation as resumable steps over a port's boards and lanes.
//
// A step is a transaction. Probe: the step checks that its data and room are there; if not, it
// changes nothing. Body: it copies or reduces, and waits for nothing. Commit: it stores one counter
// that other members read, and counts in the context. Between two steps a thread may leave an
// operation for any time, and any thread may continue it from its ChanCtx, which is all that is
// kept. A reducing step waits for all contributions, so that no partial sum outlives it.
//
// TryStep runs any one step that is ready, not the next of a fixed order: publish a contribution;
// reduce the member's own shard; consume, or gather results. With mu = 3k, 3k + 1, 3k + 2 for chunk
// k, each step waits only for steps of smaller mu, since room is freed kSlots chunks earlier: of an
// operation that all members have begun, some step is always ready. docs/runtime.md has the
// theorem.
//
// Threads: one at a time for a channel (the caller's claim); different channels and operations at
// once. Memory is the caller's. Portable C++20, no CUDA, no library.
#ifndef GORDIAN_RUNTIME_CORE_STEP_H_
#define GORDIAN_RUNTIME_CORE_STEP_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "runtime/core/chunks.h"
#include "runtime/core/lanes.h"
#include "runtime/core/op.h"
#include "runtime/core/reduce.h"

namespace gordian::runtime {

enum class Progress : uint8_t {
  kAdvanced,  // one step was done
  kNotReady,  // nothing was changed
  kDone,      // nothing is left to do
  kMismatch,  // members called different operations; nothing was written to an output
  kAborted,
};

// One member's view of one operation. Process-local; `desc` and `port` decide everything else.
struct OpView {
  OpDesc desc;
  PortView port;
  uint32_t me = 0;                       // member of the port
  const unsigned char* in = nullptr;     // null where the member has none
  unsigned char* out = nullptr;          // the same; may be elsewhere than the call said (renaming)
  bool in_here = false;                  // all members can read `in`: it is not copied to the lane
  bool out_here = false;                 // all members can write `out`; only with in_here
  const uint64_t* abort_word = nullptr;  // of the communicator; not 0: leave

  Chunks chunks;
  uint64_t publishers = 0, readers = 0;
  uint32_t slot = 0;
};

// Fills what follows from the rest. desc.seq, algo, nchan and signature are set.
inline void Complete(OpView* v) {
  const PortGeometry& g = v->port.geometry();
  v->chunks = ChunksOf(v->desc, g.members, g.chunk_bytes);
  v->publishers = Publishers(v->desc, g.members);
  v->readers = Readers(v->desc, g.members);
  v->slot = v->port.SlotOf(v->desc.seq);
}

namespace internal {

inline bool Has(uint64_t mask, uint32_t m) { return (mask >> m & 1) != 0; }
inline bool IsAborted(const OpView& v) {
  // litmus: step.aborted
  return v.abort_word != nullptr && Acquire(*v.abort_word) != 0;
}

// Members of `mask` whose board is not at this operation yet.
inline uint64_t NotPosted(const OpView& v, uint64_t mask) {
  uint64_t absent = 0;
  for (uint32_t m = 0; m < v.port.geometry().members; ++m) {
    // litmus: board.posted
    if (Has(mask, m) && Acquire(v.port.BoardOf(v.slot, m).seq) != v.desc.seq) {
      absent |= uint64_t{1} << m;
    }
  }
  return absent;
}

inline bool Agrees(const OpView& v, uint32_t m) {
  return v.port.BoardOf(v.slot, m).signature == v.desc.signature;
}

// Members of `mask` whose counter is below `least`. They have begun.
template <uint64_t Counters::*counter>
uint64_t Below(const OpView& v, uint64_t mask, uint32_t channel, uint64_t least) {
  uint64_t behind = 0;
  for (uint32_t m = 0; m < v.port.geometry().members; ++m) {
    // litmus: lane.counter
    if (Has(mask, m) && Acquire(v.port.CountersOf(v.slot, m, channel).*counter) < least) {
      behind |= uint64_t{1} << m;
    }
  }
  return behind;
}

// Where member m's contribution to chunk k of a channel begins: of piece `piece`, if it has pieces.
// The own one is read where it is: what is written over it is written later, by the same step or a
// later one.
inline const unsigned char* Contributed(const OpView& v, uint32_t m, uint32_t channel, uint64_t k,
                                        const Span& span, uint32_t piece) {
  const uint64_t size = SizeOf(v.desc.dtype);
  const Board& board = v.port.BoardOf(v.slot, m);
  if (m == v.me || (board.flags & kBoardInHere) != 0) {
    const auto* in = m == v.me ? v.in : reinterpret_cast<const unsigned char*>(board.in);
    const uint64_t before = v.chunks.pieces ? piece * v.desc.count : 0;
    return in + (before + span.first) * size;
  }
  return v.port.Contribution(v.slot, m, channel, k) +
         (v.chunks.pieces ? piece * span.count : 0) * size;
}

inline void Copy(unsigned char* to, const unsigned char* from, uint64_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

// What others read of the contribution goes into the lane.
inline void Publish(const OpView& v, uint32_t channel, uint64_t k, const Span& span) {
  const uint64_t size = SizeOf(v.desc.dtype);
  const uint32_t n = v.port.geometry().members;
  unsigned char* lane = v.port.Contribution(v.slot, v.me, channel, k);
  if (!v.chunks.pieces) {
    if (n == 1) return;
    const Span own = v.chunks.two_shot ? ShardSpan(span.count, n, v.me) : Span{span.count, 0};
    const uint64_t behind = own.first + own.count;
    const unsigned char* in = v.in + span.first * size;
    Copy(lane, in, own.first * size);
    Copy(lane + behind * size, in + behind * size, (span.count - behind) * size);
    return;
  }
  for (uint32_t j = 0; j < n; ++j) {
    if (j == v.me) continue;
    Copy(lane + j * span.count * size, v.in + (j * v.desc.count + span.first) * size,
         span.count * size);
  }
}

inline void ReduceSpan(const OpView& v, uint32_t channel, uint64_t k, const Span& span,
                       uint64_t shift, uint64_t count, unsigned char* to) {
  const uint32_t n = v.port.geometry().members;
  Contribution in[kMostMembers];
  for (uint32_t m = 0; m < n; ++m) {
    in[m].data = Contributed(v, m, channel, k, span, v.me) + shift * SizeOf(v.desc.dtype);
    in[m].scalar = v.port.BoardOf(v.slot, m).scalar;
  }
  Reduce(v.desc.dtype, v.desc.redop, in, n, count, to);
}

inline void Consume(const OpView& v, uint32_t channel, uint64_t k, const Span& span) {
  const uint64_t size = SizeOf(v.desc.dtype);
  if (Reduces(v.desc.kind)) {
    ReduceSpan(v, channel, k, span, 0, span.count, v.out + span.first * size);
    return;
  }
  const bool gathers = OutputCount(v.desc.kind, 1, 2) == 2;  // a part of the output for each member
  for (uint32_t m = 0; m < v.port.geometry().members; ++m) {
    if (!Has(v.publishers, m)) continue;
    Copy(v.out + ((gathers ? m * v.desc.count : 0) + span.first) * size,
         Contributed(v, m, channel, k, span, v.me), span.count * size);
  }
}

// Whether every member can read all inputs and write all outputs.
inline bool IsDirect(const OpView& v) {
  for (uint32_t m = 0; m < v.port.geometry().members; ++m) {
    if ((v.port.BoardOf(v.slot, m).flags & kBoardOutHere) == 0) return false;
  }
  return true;
}

// What is reduced at once, so that it is still in the nearest caches when it is copied.
inline constexpr uint64_t kHotBytes = 32 << 10;

// The member's shard of a chunk into the own output, and into the lane for the others.
inline void ReduceShard(const OpView& v, uint32_t channel, uint64_t k, const Span& span) {
  const uint64_t size = SizeOf(v.desc.dtype);
  const Span shard = ShardSpan(span.count, v.port.geometry().members, v.me);
  const uint64_t at_once = kHotBytes / size;
  for (uint64_t done = 0; done < shard.count; done += at_once) {
    const uint64_t count = shard.count - done < at_once ? shard.count - done : at_once;
    unsigned char* out = v.out + (span.first + shard.first + done) * size;
    ReduceSpan(v, channel, k, span, shard.first + done, count, out);
    Copy(v.port.Result(v.slot, v.me, channel, k) + done * size, out, count * size);
  }
}

// The member's part of a chunk straight into all outputs; all inputs are read in place.
inline void ReduceStretch(const OpView& v, uint32_t channel, uint64_t k) {
  const uint64_t size = SizeOf(v.desc.dtype);
  const uint32_t n = v.port.geometry().members;
  const Span part = StretchSpan(v.chunks, v.desc.count, n, v.me, k * v.desc.nchan + channel);
  const uint64_t at_once = kHotBytes / size;
  for (uint64_t done = 0; done < part.count; done += at_once) {
    const uint64_t count = part.count - done < at_once ? part.count - done : at_once;
    const uint64_t first = (part.first + done) * size;
    ReduceSpan(v, channel, k, {part.first, part.count}, done, count, v.out + first);
    for (uint32_t m = 0; m < n; ++m) {
      if (m == v.me) continue;
      auto* out = reinterpret_cast<unsigned char*>(v.port.BoardOf(v.slot, m).out);
      Copy(out + first, v.out + first, count * size);
    }
  }
}

// The others' shards of a chunk.
inline void Gather(const OpView& v, uint32_t channel, uint64_t k, const Span& span) {
  const uint64_t size = SizeOf(v.desc.dtype);
  const uint32_t n = v.port.geometry().members;
  for (uint32_t m = 0; m < n; ++m) {
    if (m == v.me) continue;
    const Span shard = ShardSpan(span.count, n, m);
    Copy(v.out + (span.first + shard.first) * size, v.port.Result(v.slot, m, channel, k),
         shard.count * size);
  }
}

}  // namespace internal

// Enters the operation on this member's board. Not ready while its window slot is used by an
// earlier one anywhere; *wanted are the members that are waited for. Called until it has advanced,
// by one thread.
inline Progress Begin(OpView& v, uint64_t* wanted) {
  const PortGeometry& g = v.port.geometry();
  *wanted = 0;
  if (internal::IsAborted(v)) return Progress::kAborted;
  if (v.desc.seq > g.window) {
    for (uint32_t m = 0; m < g.members; ++m) {
      // litmus: board.is_done
      if (Acquire(v.port.BoardOf(v.slot, m).done_seq) < v.desc.seq - g.window) {
        *wanted |= uint64_t{1} << m;
      }
    }
    if (*wanted != 0) return Progress::kNotReady;
  }
  Board& board = v.port.BoardOf(v.slot, v.me);
  const bool publishes = internal::Has(v.publishers, v.me);
  for (uint32_t c = 0; c < v.desc.nchan; ++c) {
    Counters& counters = v.port.CountersOf(v.slot, v.me, c);
    StoreRelaxed(counters.published,
                 publishes && v.in_here ? ChannelChunks(v.chunks, c, v.desc.nchan) : 0);
    StoreRelaxed(counters.consumed, 0);
    StoreRelaxed(counters.reduced, 0);
    StoreRelaxed(counters.gathered, 0);
  }
  board.signature = v.desc.signature;
  board.scalar = v.desc.scalar;
  board.in = reinterpret_cast<uint64_t>(v.in);
  board.out = reinterpret_cast<uint64_t>(v.out);
  board.flags =
      (v.in_here ? uint32_t{kBoardInHere} : 0) | (v.out_here ? uint32_t{kBoardOutHere} : 0);
  // The exchanges have one order: of two members that enter different operations, the later one
  // sees the earlier one's and reports the mismatch, even if it needs no data of other members.
  // litmus: board.begin
  std::atomic_ref<uint64_t>(board.seq).exchange(v.desc.seq, std::memory_order_seq_cst);
  for (uint32_t m = 0; m < g.members; ++m) {
    // litmus: board.others
    const uint64_t at =
        std::atomic_ref<uint64_t>(v.port.BoardOf(v.slot, m).seq).load(std::memory_order_seq_cst);
    if (at == v.desc.seq && !internal::Agrees(v, m)) return Progress::kMismatch;
  }
  return Progress::kAdvanced;
}

// At most one step of a channel. The operation has begun at this member.
inline Progress TryStep(const OpView& v, uint32_t channel, ChanCtx& ctx, uint64_t* wanted) {
  using internal::Below;
  *wanted = 0;
  if (ctx.state == kChanDone) return Progress::kDone;
  if (internal::IsAborted(v)) return Progress::kAborted;
  const uint32_t n = v.port.geometry().members;
  const uint64_t total = ChannelChunks(v.chunks, channel, v.desc.nchan);
  const bool publishes = internal::Has(v.publishers, v.me);
  const bool reads = internal::Has(v.readers, v.me);
  const bool two_shot = v.chunks.two_shot;
  Counters& own = v.port.CountersOf(v.slot, v.me, channel);
  const auto span_of = [&](uint64_t k) {
    return ChunkSpan(v.chunks, v.desc.count, k * v.desc.nchan + channel);
  };
  ctx.state = kChanBegun;

  const bool sends = publishes && !v.in_here;
  if (sends && ctx.sent < total) {
    uint64_t behind = 0;
    if (ctx.sent >= kSlots) {
      behind = internal::NotPosted(v, v.readers);
      if (behind == 0)
        behind = Below<&Counters::consumed>(v, v.readers, channel, ctx.sent - kSlots + 1);
    }
    if (behind == 0) {
      internal::Publish(v, channel, ctx.sent, span_of(ctx.sent));
      // litmus: lane.publish
      Release(own.published, ++ctx.sent);
      return Progress::kAdvanced;
    }
    *wanted |= behind;
  }

  // Everything below reads what others have put there: their operations must be known and the same.
  const bool needs = reads ? ctx.recvd < total || two_shot : false;
  if ((needs || (publishes && v.in_here)) && ctx.agreed == 0) {
    const uint64_t parties = (needs ? v.publishers : 0) | (v.in_here && publishes ? v.readers : 0);
    const uint64_t absent = internal::NotPosted(v, parties);
    for (uint32_t m = 0; m < n; ++m) {
      if (internal::Has(parties & ~absent, m) && !internal::Agrees(v, m))
        return Progress::kMismatch;
    }
    *wanted |= absent;
    if (absent != 0) return Progress::kNotReady;
    ctx.agreed = 1;
  }

  if (reads && two_shot && ctx.reduced < total) {
    uint64_t behind = Below<&Counters::published>(v, v.publishers, channel, ctx.reduced + 1);
    // Results that go straight to the outputs take no room in a lane.
    const bool direct = internal::IsDirect(v);
    if (ctx.reduced >= kSlots && !direct) {
      behind |= Below<&Counters::gathered>(v, v.readers, channel, ctx.reduced - kSlots + 1);
    }
    if (behind == 0) {
      if (direct) {
        internal::ReduceStretch(v, channel, ctx.reduced);
      } else {
        internal::ReduceShard(v, channel, ctx.reduced, span_of(ctx.reduced));
      }
      ++ctx.reduced;
      Release(own.reduced, ctx.reduced);
      Release(own.consumed, ctx.reduced);
      return Progress::kAdvanced;
    }
    *wanted |= behind;
  }
  if (reads && ctx.recvd < total) {
    // Of results that are written straight to the outputs, only the last matters.
    const bool direct = two_shot && internal::IsDirect(v);
    const uint64_t next = direct ? total : ctx.recvd + 1;
    const uint64_t behind = two_shot ? Below<&Counters::reduced>(v, v.readers, channel, next)
                                     : Below<&Counters::published>(v, v.publishers, channel, next);
    if (behind == 0) {
      if (!two_shot) {
        internal::Consume(v, channel, ctx.recvd, span_of(ctx.recvd));
      } else if (!direct) {
        internal::Gather(v, channel, ctx.recvd, span_of(ctx.recvd));
      }
      ctx.recvd = next;
      // litmus: lane.consume
      Release(two_shot ? own.gathered : own.consumed, next);
      return Progress::kAdvanced;
    }
    *wanted |= behind;
  }

  if (sends && ctx.sent < total) return Progress::kNotReady;
  if (reads && ctx.recvd < total) return Progress::kNotReady;
  if (publishes && v.in_here) {  // the input is the caller's again once no member reads it
    const uint64_t behind = Below<&Counters::consumed>(v, v.readers, channel, total);
    *wanted |= behind;
    if (behind != 0) return Progress::kNotReady;
  }
  ctx.state = kChanDone;
  return Progress::kAdvanced;
}

// After all channels are done, or the operation was given up: the window slot is free as far as
// this member is concerned.
inline void Finish(const OpView& v) {
  // litmus: board.finish
  Release(v.port.BoardOf(v.slot, v.me).done_seq, v.desc.seq);
}

// Of an operation that was given up and finished: whether a member that reaches into this one's
// memory may still be in a step. Members that begin later see the abort word first.
inline bool OthersInside(const OpView& v) {
  for (uint32_t m = 0; m < v.port.geometry().members; ++m) {
    const Board& board = v.port.BoardOf(v.slot, m);
    // litmus: inside.look
    const uint64_t at =
        std::atomic_ref<uint64_t>(const_cast<uint64_t&>(board.seq)).load(std::memory_order_seq_cst);
    // litmus: inside.finished
    if (at == v.desc.seq && Acquire(board.done_seq) < v.desc.seq) return true;
  }
  return false;
}

// Whether the counters of an operation that all members have begun can be: for tests.
inline bool CheckInvariants(const OpView& v) {
  const uint32_t n = v.port.geometry().members;
  if (internal::NotPosted(v, AllMembers(n)) != 0) return true;
  for (uint32_t c = 0; c < v.desc.nchan; ++c) {
    const uint64_t total = ChannelChunks(v.chunks, c, v.desc.nchan);
    for (uint32_t w = 0; w < n; ++w) {
      const Counters& writer = v.port.CountersOf(v.slot, w, c);
      const bool staged = (v.port.BoardOf(v.slot, w).flags & kBoardInHere) == 0;
      if (Acquire(writer.published) > total || Acquire(writer.reduced) > total) return false;
      for (uint32_t r = 0; r < n; ++r) {
        const Counters& reader = v.port.CountersOf(v.slot, r, c);
        if (internal::Has(v.publishers, w) && internal::Has(v.readers, r)) {
          if (Acquire(reader.consumed) > Acquire(writer.published)) return false;
          if (staged && Acquire(writer.published) > Acquire(reader.consumed) + kSlots) return false;
        }
        if (v.chunks.two_shot && !internal::IsDirect(v) &&
            (Acquire(reader.gathered) > Acquire(writer.reduced) ||
             Acquire(writer.reduced) > Acquire(reader.gathered) + kSlots)) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_STEP_H_
