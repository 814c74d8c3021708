// Buffers of operations on the host, what is expected in them, and small sizes for each way of
// carrying.
#ifndef GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_CASES_H_
#define GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_CASES_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/cuda/protocol/work.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {

// Buffers of one rank for one operation.
struct Buffers {
  std::vector<char> in, out;
  char *in_at = nullptr, *out_at = nullptr;
  uint64_t out_elements = 0;
};

inline constexpr uint32_t kMargin = 64;
inline constexpr uint64_t kForEver = 20000;  // turns without an operation that ends

inline Buffers Fill(const Case& c, uint32_t ranks, uint32_t rank, char* heap) {
  Buffers b;
  const uint64_t size = SizeOf(c.type);
  const uint64_t ins = InputCount(c.kind, c.count, ranks),
                 outs = OutputCount(c.kind, c.count, ranks);
  b.in.assign(ins * size + 2 * kMargin, 0);
  b.out.assign(outs * size + 2 * kMargin, 77);
  b.in_at =
      reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(b.in.data()), 16)) + c.misaligned;
  b.out_at = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(b.out.data()), 16)) +
             c.misaligned;
  if (heap != nullptr) b.out_at = heap + c.misaligned;
  if (HasOutput(c.kind, static_cast<int32_t>(c.root), rank)) b.out_elements = outs;
  if (c.in_place) {
    // NCCL's place: the buffer that is the larger one.
    if (ins <= outs) {
      const bool own = c.kind == OpKind::kAllGather || c.kind == OpKind::kGather;
      b.in_at = b.out_at + (own ? rank * c.count * size : 0);
    } else {
      b.out_at = b.in_at + rank * c.count * size;
    }
  }
  if (HasInput(c.kind, static_cast<int32_t>(c.root), rank)) {
    for (uint64_t i = 0; i < ins; ++i) Encode(c.type, Value(rank, i), b.in_at + i * size);
  }
  return b;
}

// Elements that are not as expected.
inline uint64_t Wrong(const Case& c, uint32_t ranks, uint32_t rank, const Buffers& b) {
  uint64_t wrong = 0;
  char want[8];
  const uint64_t size = SizeOf(c.type);
  for (uint64_t i = 0; i < b.out_elements; ++i) {
    Encode(c.type, Expected(c, ranks, rank, i), want);
    if (std::memcmp(want, b.out_at + i * size, size) != 0) ++wrong;
  }
  return wrong;
}

// Ways of carrying: LL, two-shot LL, bulk, LL128.
inline constexpr int kWays = 4;
inline Thresholds Way(uint64_t way) {
  Thresholds t;
  t.one_shot = way == 0 ? 4096 : 0;
  t.two_shot_lines = way == 1 ? 4096 : 0;
  t.move_lines = way <= 1 ? 4096 : 0;
  t.root_lines = way == 0 ? 4096 : 0;  // by two shots a broadcast goes in bulk
  t.two_shot_tiles = t.move_tiles = way == 3 ? 65536 : 0;
  t.root_tiles = way == 3 ? 2048 : 0;
  t.line_threads = 8;
  t.channel_tiles = 2;
  t.bulk_per_channel = 512;
  return t;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_CASES_H_
