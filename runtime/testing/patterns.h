// Inputs and expected outputs of large operations, made and checked on the device. Floats that are
// small whole numbers, so that every order of adding up gives the same bits.
#ifndef GORDIAN_RUNTIME_TESTING_PATTERNS_H_
#define GORDIAN_RUNTIME_TESTING_PATTERNS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/core/op.h"

namespace gordian::testing {

// Element i of rank's input: (rank + 1) * (1 + (3 i + salt) mod 61).
cudaError_t FillPattern(float* to, uint64_t count, uint32_t rank, uint32_t salt,
                        cudaStream_t stream);

// Adds to *wrong how many of the `count * blocks` elements of an operation's output are not as the
// pattern wants them. Inputs began at element `offset` of the pattern.
struct Expectation {
  runtime::OpKind kind;
  uint32_t ranks, rank, root, salt;
  uint64_t count, offset;
};
cudaError_t CheckPattern(const float* output, const Expectation& expectation, uint64_t* wrong,
                         cudaStream_t stream);
// The same with a salt that the device has, as kernels of a graph need that are launched again and
// again.
cudaError_t FillPatternAt(float* to, uint64_t count, uint32_t rank, const uint32_t* salt,
                          cudaStream_t stream);
cudaError_t CheckPatternAt(const float* output, const Expectation& expectation,
                           const uint32_t* salt, uint64_t* wrong, cudaStream_t stream);
cudaError_t Increment(uint32_t* word, cudaStream_t stream);
cudaError_t PreloadPatterns();

}  // namespace gordian::testing

#endif  // GORDIAN_RUNTIME_TESTING_PATTERNS_H_
