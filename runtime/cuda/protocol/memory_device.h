// The memory operations of the CUDA backend: Load, Store, CompareAndSwap, FetchAdd, Add, Or and
// Fence on words, with a scope and an order; lines, packs and bytes of data below them. On the host
// the same names are atomics, at least as strong, so that tests run the protocols in threads there.
//
// Rules (docs/runtime-cuda.md argues them): words that are polled are read relaxed or acquire at
// system scope, never through the read-only cache; staged data is read at L2 (.cg), since no kernel
// boundary need lie between two writes of one staging slot; user data is read weakly.
//
// Thread rule: any thread. Pointers may lead to the memory of another device or process. Nothing
// here blocks and nothing fails.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_MEMORY_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_MEMORY_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/core/step_plan.h"  // GRT_HD

// GRT_APART keeps the loops that move data in functions of their own, so that their registers do
// not burden the code around them. GRT_UNROLL stands before a loop whose steps should be under way
// at once.
#ifdef __CUDACC__
#define GRT_APART __noinline__
#define GRT_UNROLL _Pragma("unroll")
#else
#define GRT_APART
#define GRT_UNROLL
#endif

namespace gordian::runtime::cuda {

// kLanesOfThread: how many lanes of a warp one thread stands for; on the host, where a block has
// one thread, that thread stands for all. kPeersOfThread: how many peers each of a block's first
// threads serves.
#ifdef __CUDA_ARCH__
inline constexpr uint32_t kLanesOfThread = 1, kPeersOfThread = 1;
#else
inline constexpr uint32_t kLanesOfThread = 32, kPeersOfThread = 8;
#endif

// A line of the LL protocol: 8 bytes of data, each half beside its flag. Both halves are written
// whole (8 bytes are atomic), so a reader that sees both flags has both data words. Source: NCCL's
// LL protocol, as its prims_ll.h describes it.
struct alignas(16) LlLine {
  uint32_t data0, flag0, data1, flag1;
};
static_assert(sizeof(LlLine) == 16);

struct alignas(16) Pack {
  uint64_t word[2];
};
static_assert(sizeof(Pack) == 16);

// The flags of a line's two halves. The first is a count that is never used again, so readers know
// an old line by it; the second also depends on the operation's signature, so a reader never
// accepts a line of another operation.
struct LineFlags {
  uint32_t first, second;
};

// The finaliser of MurmurHash3 (Appleby, public domain): one to one, so that equal signatures with
// different counts never match.
GRT_HD inline LineFlags FlagsOf(uint32_t count, uint32_t signature) {
  uint32_t h = count;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return {count, signature ^ h ^ h >> 16};
}

GRT_HD inline void StoreLine(LlLine* line, uint64_t data, const LineFlags& flags) {
  const auto low = static_cast<uint32_t>(data);
  const auto high = static_cast<uint32_t>(data >> 32);
#ifdef __CUDA_ARCH__
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(low),
               "r"(flags.first), "r"(high), "r"(flags.second)
               : "memory");
#else
  auto* half = reinterpret_cast<uint64_t*>(line);
  __atomic_store_n(half, low | static_cast<uint64_t>(flags.first) << 32, __ATOMIC_RELEASE);
  __atomic_store_n(half + 1, high | static_cast<uint64_t>(flags.second) << 32, __ATOMIC_RELEASE);
#endif
}

// Loads the line if `wanted`: by a predicate, not a branch, so that several loads can be under way
// at once.
GRT_HD inline LlLine LoadLineIf(bool wanted, const LlLine* line) {
  LlLine got = {};
#ifdef __CUDA_ARCH__
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.u32 wanted, %5, 0;\n"
      "@wanted ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];\n"
      "}"
      : "+r"(got.data0), "+r"(got.flag0), "+r"(got.data1), "+r"(got.flag1)
      : "l"(line), "r"(static_cast<uint32_t>(wanted))
      : "memory");
#else
  if (!wanted) return got;
  auto* half = reinterpret_cast<const uint64_t*>(line);
  const uint64_t first = __atomic_load_n(half, __ATOMIC_ACQUIRE);
  const uint64_t second = __atomic_load_n(half + 1, __ATOMIC_ACQUIRE);
  got.data0 = static_cast<uint32_t>(first);
  got.flag0 = static_cast<uint32_t>(first >> 32);
  got.data1 = static_cast<uint32_t>(second);
  got.flag1 = static_cast<uint32_t>(second >> 32);
#endif
  return got;
}

// Whether the line carries `flags`; if not, *data is unspecified.
GRT_HD inline bool Carries(const LlLine& line, const LineFlags& flags, uint64_t* data) {
  *data = line.data0 | static_cast<uint64_t>(line.data1) << 32;
  return line.flag0 == flags.first && line.flag1 == flags.second;
}
GRT_HD inline bool LoadLine(const LlLine* line, const LineFlags& flags, uint64_t* data) {
  return Carries(LoadLineIf(true, line), flags, data);
}

// Sixteen bytes of an LL128 line (ll_tile_device.h).
GRT_HD inline void StoreWhole(void* to, uint64_t first, uint64_t second) {
#ifdef __CUDA_ARCH__
  asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(to), "l"(first), "l"(second)
               : "memory");
#else
  __atomic_store_n(static_cast<uint64_t*>(to), first, __ATOMIC_RELEASE);
  __atomic_store_n(static_cast<uint64_t*>(to) + 1, second, __ATOMIC_RELEASE);
#endif
}
GRT_HD inline Pack LoadWhole(const void* from) {
  Pack pack;
#ifdef __CUDA_ARCH__
  asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];"
               : "=l"(pack.word[0]), "=l"(pack.word[1])
               : "l"(from)
               : "memory");
#else
  pack.word[0] = __atomic_load_n(static_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
  pack.word[1] = __atomic_load_n(static_cast<const uint64_t*>(from) + 1, __ATOMIC_ACQUIRE);
#endif
  return pack;
}

// For which observers an access keeps its order.
enum class Scope : uint8_t {
  kDevice,  // the blocks of this device (PTX: gpu)
  kSystem,  // all devices of the job, and the host (PTX: sys)
};
// What an access orders, for all observers in its scope. Accesses of words are never torn, whatever
// their order. With a barrier between, the order includes accesses of the block's other threads.
enum class Order : uint8_t {
  kRelaxed,         // nothing
  kAcquire,         // a load: what was stored before the word was is seen by the loads behind it
  kRelease,         // a store: what this thread saw or stored before is seen before the word is
  kAcquireRelease,  // both
  kSequential,      // a fence: also what was stored before it comes before what is loaded behind it
};
using enum Scope;
using enum Order;

// PTX names a scope and an order with literals: CASE gets "order.scope", STRONG being the one order
// beside kRelaxed that the operation has.
#define GRT_ORDERED(CASE, STRONG)                          \
  if constexpr (kScope == kSystem && kOrder == kRelaxed) { \
    CASE("relaxed.sys");                                   \
  } else if constexpr (kScope == kSystem) {                \
    CASE(STRONG ".sys");                                   \
  } else if constexpr (kOrder == kRelaxed) {               \
    CASE("relaxed.gpu");                                   \
  } else {                                                 \
    CASE(STRONG ".gpu");                                   \
  }
template <typename T>
inline constexpr bool kIsWord = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

// Words of global memory, of this device or another one or of the host. On the host relaxed loads
// acquire and relaxed stores release, as its fences below count on.
template <Scope kScope, Order kOrder, typename T>
GRT_HD inline T Load(const T* from) {
  static_assert(kIsWord<T> && (kOrder == kRelaxed || kOrder == kAcquire));
#ifdef __CUDA_ARCH__
  T value;
#define GRT_LOAD(HOW)                                                                     \
  if constexpr (sizeof(T) == 4) {                                                         \
    asm volatile("ld." HOW ".global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory"); \
  } else {                                                                                \
    asm volatile("ld." HOW ".global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory"); \
  }
  GRT_ORDERED(GRT_LOAD, "acquire")
#undef GRT_LOAD
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

template <Scope kScope, Order kOrder, typename T>
GRT_HD inline void Store(T* to, std::type_identity_t<T> value) {
  static_assert(kIsWord<T> && (kOrder == kRelaxed || kOrder == kRelease));
#ifdef __CUDA_ARCH__
#define GRT_STORE(HOW)                                                                \
  if constexpr (sizeof(T) == 4) {                                                     \
    asm volatile("st." HOW ".global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory"); \
  } else {                                                                            \
    asm volatile("st." HOW ".global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory"); \
  }
  GRT_ORDERED(GRT_STORE, "release")
#undef GRT_STORE
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}

// True, and the word is `desired`, if it was `expected`.
template <Scope kScope, Order kOrder>
GRT_HD inline bool CompareAndSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
  static_assert(kOrder == kRelaxed || kOrder == kAcquireRelease);
#ifdef __CUDA_ARCH__
  uint64_t seen;
#define GRT_SWAP(HOW)                                          \
  asm volatile("atom." HOW ".global.cas.b64 %0, [%1], %2, %3;" \
               : "=l"(seen)                                    \
               : "l"(word), "l"(expected), "l"(desired)        \
               : "memory")
  GRT_ORDERED(GRT_SWAP, "acq_rel")
#undef GRT_SWAP
  return seen == expected;
#else
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
#endif
}

#undef GRT_ORDERED

// What the word was before `value` was added.
template <Scope kScope, Order kOrder>
GRT_HD inline uint64_t FetchAdd(uint64_t* word, uint64_t value) {
  static_assert(kScope == kDevice && kOrder == kAcquireRelease, "the one form in use");
#ifdef __CUDA_ARCH__
  uint64_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(old)
               : "l"(word), "l"(value)
               : "memory");
  return old;
#else
  return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
#endif
}

// Add and Or have no result, so that the thread does not wait for one.
template <Scope kScope, Order kOrder, typename T>
GRT_HD inline void Add(T* word, std::type_identity_t<T> value) {
  static_assert(kIsWord<T> && kScope == kDevice && kOrder == kRelaxed, "the one form in use");
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
#else
  __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}
template <Scope kScope, Order kOrder>
GRT_HD inline void Or(uint32_t* word, uint32_t bits) {
  static_assert(kScope == kDevice && kOrder == kRelaxed, "the one form in use");
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(word), "r"(bits) : "memory");
#else
  __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#endif
}

// Orders what this thread saw or stored before against what it stores from here on.
template <Scope kScope, Order kOrder = kAcquireRelease>
GRT_HD inline void Fence() {
  static_assert(kOrder == kAcquireRelease || (kScope == kSystem && kOrder == kSequential));
#ifdef __CUDA_ARCH__
  if constexpr (kOrder == kSequential) {
    asm volatile("fence.sc.sys;" ::: "memory");
  } else if constexpr (kScope == kSystem) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  } else {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
#else
  if constexpr (kOrder == kSequential) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } else if constexpr (kScope == kDevice) {
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
  }  // kSystem: the host's relaxed store is a release store, which is all that is asked for
#endif
}

// Loads what a peer staged from L2, where the peers' writes arrive.
GRT_HD inline Pack LoadStaged(const void* from) {
  Pack pack;
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.cg.v2.u64 {%0,%1}, [%2];"
               : "=l"(pack.word[0]), "=l"(pack.word[1])
               : "l"(from)
               : "memory");
#else
  std::memcpy(&pack, from, sizeof pack);
#endif
  return pack;
}

GRT_HD inline uint8_t LoadStagedByte(const void* from) {
#ifdef __CUDA_ARCH__
  uint32_t byte;
  asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(byte) : "l"(from) : "memory");
  return static_cast<uint8_t>(byte);
#else
  return *static_cast<const uint8_t*>(from);
#endif
}

GRT_HD inline Pack LoadPack(const void* from) { return *static_cast<const Pack*>(from); }
GRT_HD inline void StorePack(void* to, const Pack& pack) { *static_cast<Pack*>(to) = pack; }

GRT_HD inline bool IsAligned(const void* at, uint32_t to) {
  return (reinterpret_cast<uintptr_t>(at) & (to - 1)) == 0;
}

// Up to 8 bytes at any alignment; the rest of the word is 0.
GRT_HD inline uint64_t LoadBytes(const char* from, uint32_t bytes) {
  if (bytes >= 8 && IsAligned(from, 8)) return *reinterpret_cast<const uint64_t*>(from);
  uint64_t word = 0;
  for (uint32_t i = 0; i < bytes && i < 8; ++i) {
    word |= static_cast<uint64_t>(static_cast<uint8_t>(from[i])) << (8 * i);
  }
  return word;
}

GRT_HD inline uint64_t LoadStagedBytes(const char* from, uint32_t bytes) {
  uint64_t word = 0;
  for (uint32_t i = 0; i < bytes && i < 8; ++i) {
    word |= static_cast<uint64_t>(LoadStagedByte(from + i)) << (8 * i);
  }
  return word;
}

GRT_HD inline void StoreBytes(char* to, uint64_t word, uint32_t bytes) {
  if (bytes >= 8 && IsAligned(to, 8)) {
    *reinterpret_cast<uint64_t*>(to) = word;
    return;
  }
  for (uint32_t i = 0; i < bytes && i < 8; ++i) to[i] = static_cast<char>(word >> (8 * i));
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_MEMORY_DEVICE_H_
