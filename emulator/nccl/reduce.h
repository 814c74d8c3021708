// Element types and the arithmetic of reductions.
//
// A result depends only on the contributions and their order, which is by rank: all members compute
// the same bits. Integers wrap; small floats are summed in float and rounded once; fp8 saturates as
// CUDA's conversions do. Average is the sum divided by the number of ranks, towards zero for
// integers.
#ifndef GORDIAN_EMULATOR_NCCL_REDUCE_H_
#define GORDIAN_EMULATOR_NCCL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/nccl/nccl_header.h"

namespace gordian::emu::nccl {

enum class Reduction : uint32_t { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };

struct Contribution {
  const std::byte* data;
  bool scaled;      // multiply by `scalar` first
  uint64_t scalar;  // the bits of one element
};

// 0 for a value that is not a type.
size_t ElementSize(uint32_t datatype);

// out[i] = contributions[0][i] op contributions[1][i] op ... for `count` elements. There is at
// least one contribution; `out` may be one of them (same address), else must not overlap them.
// `ranks` is the divisor of kAvg. No alignment is needed.
void Reduce(Reduction reduction, ncclDataType_t datatype,
            std::span<const Contribution> contributions, size_t count, int ranks, void* out);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_REDUCE_H_
