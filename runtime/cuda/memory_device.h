// The memory operations of the CUDA backend, each with the ordering that the protocols count on. On
// the host the same names are atomics, at least as strong, so that the protocols run in threads
// there.
//
// Rules (docs/runtime-cuda.md argues them): words that are polled are read relaxed or acquire at
// system scope, never through the read-only cache; staged data is read at L2 (.cg), since no kernel
// boundary need lie between two writes of one staging slot; user data is read weakly.
//
// Thread rule: any thread. Pointers may lead to the memory of another device or process. Nothing
// here blocks and nothing fails.
#ifndef GORDIAN_RUNTIME_CUDA_MEMORY_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_MEMORY_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/core/step_plan.h"  // GRT_HD

// For the loops that move data: they get registers of their own, and the code around them stays
// small.
#ifdef __CUDACC__
#define GRT_APART __noinline__
#else
#define GRT_APART
#endif

namespace gordian::runtime::cuda {

// A warp's lanes that one thread stands for: on the device its own; on the host, where a block has
// one thread, all. And the peers that it looks after, of those that are dealt out to the first
// threads of a block.
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

// What a line's two halves carry. The first is a count that is never used again, so it alone tells
// an old line from a new one; the second has the operation's signature in it too, so a line of
// another operation matches nothing.
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

// A line as it is now; nothing if not `wanted`, without a branch, so that several loads are under
// way at once.
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

// False, and data unspecified, unless the line carries `flags`.
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

GRT_HD inline uint32_t LoadAcquire(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline uint32_t LoadRelaxed(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline void StoreRelaxed(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

GRT_HD inline uint64_t LoadWideRelaxed(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline void StoreWideRelaxed(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

// Everything that this thread has seen written, or wrote, comes before what it stores from here on,
// for every observer. The block's other threads are covered when a barrier lies between.
GRT_HD inline void FenceSystem() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif  // the host's StoreRelaxed is a release store, which is all that is asked for
}

// The same for observers on this device.
GRT_HD inline void FenceDevice() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

// A word of this device's memory that several of its blocks contend for.
GRT_HD inline uint64_t LoadWordAcquire(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

// The same where nothing is read because of it.
GRT_HD inline uint64_t LoadWordRelaxed(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline void StoreWordRelease(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

GRT_HD inline bool CompareAndSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
#ifdef __CUDA_ARCH__
  uint64_t seen;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(seen)
               : "l"(word), "l"(expected), "l"(desired)
               : "memory");
  return seen == expected;
#else
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline uint32_t LoadWord32Acquire(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

GRT_HD inline void OrRelaxed(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  __atomic_fetch_or(word, value, __ATOMIC_RELAXED);
#endif
}

GRT_HD inline void AddRelaxed(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

GRT_HD inline void AddWideRelaxed(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

// Host memory that the device sees, and that the host may write at any time.
GRT_HD inline uint32_t LoadHostWord(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  return LoadAcquire(word);
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

// What a peer staged: at L2, where peers' writes arrive.
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

#endif  // GORDIAN_RUNTIME_CUDA_MEMORY_DEVICE_H_
