// What an operation is, and all that is kept of it while it is not running: plain data.
//
// The choice of algorithm and channels is a pure function of what is equal on all members, so that
// they agree without talking. The signature is what members compare before any output is written:
// a hash of everything that must be equal.
//
// Source: counters-only contexts are DFCCL's (EuroSys '25, "dynamic context") less what it keeps
// because its steps can be cut in half; ours cannot. Portable C++20; no CUDA, no library.
#ifndef GORDIAN_RUNTIME_CORE_OP_H_
#define GORDIAN_RUNTIME_CORE_OP_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/core/elements.h"

namespace gordian::runtime {

// Numbered as grtKind_t.
enum class OpKind : uint8_t {
  kNone,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

enum class Algo : uint8_t {
  kOneShot,  // every reader reads all contributions
  kTwoShot,  // member j reduces shard j, and all read the shards
};

// OpDesc::flags
enum OpFlags : uint16_t {
  kOpInPlace = 1,  // out is in, or NCCL's in-place part of it
};

struct OpDesc {
  uint64_t seq = 0;  // of its port, from 1; 0: empty
  uint32_t port = 0;
  OpKind kind = OpKind::kNone;
  DataType dtype = DataType::kFloat;
  Operator redop = Operator::kSum;
  Algo algo = Algo::kOneShot;
  uint16_t nchan = 1;
  uint16_t flags = 0;
  int32_t root_or_peer = 0;
  uint32_t priority = 0;  // lower first
  uint64_t count = 0;     // elements, as NCCL counts them for this kind
  uint64_t scalar = 0;    // kPreMulSum: the bits of one element
  uint64_t signature = 0;
};
static_assert(std::is_trivially_copyable_v<OpDesc>);

// 32 bytes: everything that a preemption saves, for each operation and channel. The first four
// count chunks, or say what is known, since the operation began; credits derive from them.
struct ChanCtx {
  uint32_t reduced = 0;  // two-shot: chunks of the own shard
  uint32_t agreed = 0;   // 1: the boards that are needed are there, and say the same operation
  uint64_t sent = 0;
  uint64_t recvd = 0;
  uint32_t state = 0;  // ChanState
  uint32_t owner = 0;  // the worker that runs it; 0: none
};
static_assert(sizeof(ChanCtx) == 32 && std::is_trivially_copyable_v<ChanCtx>);

enum ChanState : uint32_t { kChanNew = 0, kChanBegun = 1, kChanDone = 2 };

GRT_HD constexpr bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce;
}

GRT_HD constexpr bool HasRoot(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather ||
         kind == OpKind::kScatter;
}

GRT_HD constexpr bool IsPointToPoint(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kRecv;
}

// Elements of the input and of the output of a member (of n) that has them.
GRT_HD constexpr uint64_t InputCount(OpKind kind, uint64_t count, uint32_t n) {
  return kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll || kind == OpKind::kScatter
             ? count * n
             : count;
}
GRT_HD constexpr uint64_t OutputCount(OpKind kind, uint64_t count, uint32_t n) {
  return kind == OpKind::kAllGather || kind == OpKind::kAllToAll || kind == OpKind::kGather
             ? count * n
             : count;
}

// Whether member `rank` reads its input, or writes its output.
GRT_HD constexpr bool HasInput(OpKind kind, int32_t root, uint32_t rank) {
  if (kind == OpKind::kBroadcast || kind == OpKind::kScatter) {
    return static_cast<uint32_t>(root) == rank;
  }
  return kind != OpKind::kRecv;
}
GRT_HD constexpr bool HasOutput(OpKind kind, int32_t root, uint32_t rank) {
  if (kind == OpKind::kReduce || kind == OpKind::kGather) {
    return static_cast<uint32_t>(root) == rank;
  }
  return kind != OpKind::kSend;
}

namespace internal {

// The finaliser of MurmurHash3 (Appleby, public domain): each input bit changes half of the output.
GRT_HD constexpr uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

}  // namespace internal

// Never 0. Of a send and its receive it is the same; there the bytes count, not the type, since
// bytes are what NCCL moves.
GRT_HD constexpr uint64_t Signature(const OpDesc& op) {
  const bool pair = IsPointToPoint(op.kind);
  const uint64_t kind = static_cast<uint64_t>(pair ? OpKind::kSend : op.kind);
  const uint64_t type = pair ? 0xff : static_cast<uint64_t>(op.dtype);
  const uint64_t redop = Reduces(op.kind) ? static_cast<uint64_t>(op.redop) : 0xff;
  const uint64_t root = HasRoot(op.kind) ? static_cast<uint32_t>(op.root_or_peer) : 0xffffffffull;
  uint64_t h = internal::Mix(kind | type << 8 | redop << 16 | static_cast<uint64_t>(op.algo) << 24 |
                             root << 32);
  h = internal::Mix(h ^ (pair ? op.count * SizeOf(op.dtype) : op.count));
  h = internal::Mix(h ^ (op.nchan + 1u));
  return h == 0 ? 1 : h;
}

// Where the choice changes. Equal on all members of a communicator.
struct AlgoLimits {
  uint64_t one_shot_bytes = 16 << 10;  // of the message: one-shot up to and including
  uint64_t channel_bytes = 1 << 20;    // a further channel for each
  uint16_t most_channels = 1;
};

// Bytes of the message that one member contributes or gets, whichever is larger.
GRT_HD constexpr uint64_t MessageBytes(OpKind kind, DataType type, uint64_t count, uint32_t n) {
  const uint64_t in = InputCount(kind, count, n);
  const uint64_t out = OutputCount(kind, count, n);
  return (in > out ? in : out) * SizeOf(type);
}

// Pure: of arguments that NCCL requires to be equal on all members.
GRT_HD constexpr Algo ChooseAlgo(OpKind kind, DataType type, uint64_t count, uint32_t n,
                                 const AlgoLimits& limits) {
  const uint64_t bytes = MessageBytes(kind, type, count, n);
  return bytes <= limits.one_shot_bytes || n == 1 ? Algo::kOneShot : Algo::kTwoShot;
}

// At least 1.
GRT_HD constexpr uint16_t ChooseChannels(OpKind kind, DataType type, uint64_t count, uint32_t n,
                                         const AlgoLimits& limits) {
  if (IsPointToPoint(kind) || limits.channel_bytes == 0) return 1;
  const uint64_t wanted = 1 + MessageBytes(kind, type, count, n) / limits.channel_bytes;
  const uint64_t most = limits.most_channels == 0 ? 1 : limits.most_channels;
  return static_cast<uint16_t>(wanted < most ? wanted : most);
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_OP_H_
