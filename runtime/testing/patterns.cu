#include <cuda_runtime.h>

#include "runtime/testing/patterns.h"

namespace gordian::testing {
namespace {

using runtime::OpKind;

__device__ float Element(uint32_t rank, uint64_t index, uint32_t salt) {
  return static_cast<float>(rank + 1) * static_cast<float>(1 + (3 * index + salt) % 61);
}

// `of`: where the salt is, if the device has it.
__global__ void Fill(float* to, uint64_t count, uint32_t rank, uint32_t salt, const uint32_t* of) {
  if (of != nullptr) salt = *of;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    to[i] = Element(rank, i, salt);
  }
}

__global__ void Check(const float* output, Expectation e, const uint32_t* of, uint64_t total,
                      uint64_t* wrong) {
  if (of != nullptr) e.salt = *of;
  uint64_t mine = 0;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < total;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const uint64_t block = i / e.count, at = i % e.count;
    float want = 0;
    switch (e.kind) {
      case OpKind::kAllReduce:
      case OpKind::kReduce:
        for (uint32_t p = 0; p < e.ranks; ++p) want += Element(p, e.offset + i, e.salt);
        break;
      case OpKind::kReduceScatter:
        for (uint32_t p = 0; p < e.ranks; ++p)
          want += Element(p, e.offset + e.rank * e.count + i, e.salt);
        break;
      case OpKind::kAllGather:
      case OpKind::kGather:
        want = Element(static_cast<uint32_t>(block), e.offset + at, e.salt);
        break;
      case OpKind::kAllToAll:
        want = Element(static_cast<uint32_t>(block), e.offset + e.rank * e.count + at, e.salt);
        break;
      case OpKind::kScatter:
        want = Element(e.root, e.offset + e.rank * e.count + i, e.salt);
        break;
      default:
        want = Element(e.root, e.offset + i, e.salt);
    }
    if (output[i] != want) ++mine;
  }
  if (mine != 0) atomicAdd(reinterpret_cast<unsigned long long*>(wrong), mine);
}

__global__ void IncrementKernel(uint32_t* word) { ++*word; }

}  // namespace

cudaError_t FillPattern(float* to, uint64_t count, uint32_t rank, uint32_t salt,
                        cudaStream_t stream) {
  Fill<<<512, 256, 0, stream>>>(to, count, rank, salt, nullptr);
  return cudaGetLastError();
}

cudaError_t FillPatternAt(float* to, uint64_t count, uint32_t rank, const uint32_t* salt,
                          cudaStream_t stream) {
  Fill<<<512, 256, 0, stream>>>(to, count, rank, 0, salt);
  return cudaGetLastError();
}

cudaError_t Increment(uint32_t* word, cudaStream_t stream) {
  IncrementKernel<<<1, 1, 0, stream>>>(word);
  return cudaGetLastError();
}

cudaError_t CheckPattern(const float* output, const Expectation& expectation, uint64_t* wrong,
                         cudaStream_t stream) {
  return CheckPatternAt(output, expectation, nullptr, wrong, stream);
}

cudaError_t CheckPatternAt(const float* output, const Expectation& expectation,
                           const uint32_t* salt, uint64_t* wrong, cudaStream_t stream) {
  const Expectation& e = expectation;
  const bool has =
      e.kind == OpKind::kRecv || runtime::HasOutput(e.kind, static_cast<int32_t>(e.root), e.rank);
  if (!has) return cudaSuccess;
  const uint64_t total = runtime::OutputCount(e.kind, e.count, e.ranks);
  const auto blocks = static_cast<unsigned>(total / 1024 < 1      ? 1
                                            : total / 1024 > 1024 ? 1024
                                                                  : total / 1024);
  Check<<<blocks, 256, 0, stream>>>(output, e, salt, total, wrong);
  return cudaGetLastError();
}

cudaError_t PreloadPatterns() {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(Fill));
  if (error == cudaSuccess) {
    error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(IncrementKernel));
  }
  if (error == cudaSuccess)
    error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(Check));
  return error;
}

}  // namespace gordian::testing
