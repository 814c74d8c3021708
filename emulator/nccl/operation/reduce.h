// Element types and the arithmetic of reductions.
//
// A result depends only on the contributions and their order, which is by rank: all members compute
// the same bits. Integers wrap; small floats are summed in float and rounded once; fp8 saturates
// like CUDA's conversions. Average is the sum divided by the number of ranks, towards zero for
// integers.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_REDUCE_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/nccl/api/nccl_header.h"

namespace gordian::emu::nccl {

enum class Reduction : uint32_t { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };

struct Contribution {
  const std::byte* data;
  bool scaled;      // multiply by `scalar` first
  uint64_t scalar;  // the bits of one element
};

// Returns 0 for an invalid type.
size_t ElementSize(uint32_t datatype);

// out[i] = contributions[0][i] op contributions[1][i] op ... for `count` elements. Needs at least
// one contribution; `out` may be one of them (same address), else must not overlap them. `ranks` is
// the divisor of kAvg. Needs no alignment.
void Reduce(Reduction reduction, ncclDataType_t datatype,
            std::span<const Contribution> contributions, size_t count, int ranks, void* out);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_REDUCE_H_
