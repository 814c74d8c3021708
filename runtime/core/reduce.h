// The arithmetic of a reduction over all members at once: each element is ((x0 + x1) + x2) + ... in
// rank order, computed in 32 bits for floats of fewer and rounded once, an average divided last.
// Hence the same bits whatever the algorithm, the chunks, the channels and the schedule are.
// Where several contributions of an element are NaN, it is a NaN; which one's sign is not said.
// (elements.h's Combine rounds after each operation: it is for plans that pass partial sums on.)
//
// Portable C++20; no CUDA, no library.
#ifndef GORDIAN_RUNTIME_CORE_REDUCE_H_
#define GORDIAN_RUNTIME_CORE_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/core/elements.h"

namespace gordian::runtime {

struct Contribution {
  const void* data = nullptr;
  uint64_t scalar = 0;  // kPreMulSum: the bits of one element
};

// `out` may be one of the inputs (same address), else must not overlap them. No alignment needed.
// n is at least 1.
void Reduce(DataType type, Operator op, const Contribution* in, uint32_t n, size_t count,
            void* out);

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_REDUCE_H_
