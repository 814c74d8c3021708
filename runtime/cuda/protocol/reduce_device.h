// Combines one 8-byte word of each rank into one word: ((x0 + x1) + x2) + ... in rank order, the
// same on every rank, for every protocol, number of channels and schedule. It adds 16- and 8-bit
// floats in 32 bits and rounds once, to nearest even; an average it divides at the end, before that
// rounding. PreMulSum first multiplies each rank's elements by that rank's scalar, without rounding
// in between. Bytes of a word behind the last element may hold anything.
//
// The element types are core/elements.h's; nvcc compiles its constexpr functions for the device
// (--expt-relaxed-constexpr). Half and bfloat16 use the device's own conversions, for speed: they
// round the same way.
//
// Thread rule: pure functions.
#ifndef GORDIAN_RUNTIME_CUDA_PROTOCOL_REDUCE_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_PROTOCOL_REDUCE_DEVICE_H_

#include <cstdint>
#include <type_traits>

#include "runtime/core/elements.h"
#include "runtime/cuda/protocol/memory_device.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace gordian::runtime::cuda {

// The types that a kernel is compiled for beside element types. AnyType: it looks at the type for
// every word; MoveOnly: it reduces nothing.
struct AnyType {};
struct MoveOnly {};

// An element type: Bits as stored, Value as computed.
template <typename T>
struct PlainElement {
  using Bits = T;
  using Value = T;
  GRT_HD static Value Decode(Bits bits) { return bits; }
  GRT_HD static Bits Encode(Value value) { return value; }
};
template <typename Format>
struct SmallElement {
  using Bits = typename Format::Bits;
  using Value = float;
  GRT_HD static Value Decode(Bits bits) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<Format, Half>) return __half2float(__ushort_as_half(bits));
    if constexpr (std::is_same_v<Format, Bfloat16>) return __uint_as_float(uint32_t{bits} << 16);
#endif
    return Format::Decode(bits);
  }
  GRT_HD static Bits Encode(Value value) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<Format, Half>) return __half_as_ushort(__float2half_rn(value));
    if constexpr (std::is_same_v<Format, Bfloat16>) {
      return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
#endif
    return Format::Encode(value);
  }
};
using FloatElement = PlainElement<float>;
using HalfElement = SmallElement<Half>;
using Bfloat16Element = SmallElement<Bfloat16>;

template <typename Bits>
GRT_HD inline Bits ElementOf(uint64_t word, uint32_t index) {
  const uint64_t shifted = word >> (8 * sizeof(Bits) * index);
  Bits bits;
  if constexpr (sizeof(Bits) == 8) {
    memcpy(&bits, &shifted, 8);
  } else if constexpr (sizeof(Bits) == 4) {
    const auto low = static_cast<uint32_t>(shifted);
    memcpy(&bits, &low, 4);
  } else if constexpr (sizeof(Bits) == 2) {
    bits = static_cast<Bits>(static_cast<uint16_t>(shifted));
  } else {
    bits = static_cast<Bits>(static_cast<uint8_t>(shifted));
  }
  return bits;
}

template <typename Bits>
GRT_HD inline uint64_t WordOf(Bits bits, uint32_t index) {
  uint64_t word;
  if constexpr (sizeof(Bits) == 8) {
    memcpy(&word, &bits, 8);
  } else if constexpr (sizeof(Bits) == 4) {
    uint32_t low;
    memcpy(&low, &bits, 4);
    word = low;
  } else if constexpr (sizeof(Bits) == 2) {
    word = static_cast<uint16_t>(bits);
  } else {
    word = static_cast<uint8_t>(bits);
  }
  return word << (8 * sizeof(Bits) * index);
}

// Keeps the compiler from fusing the product and the addition that follows into one instruction,
// which would round once where the reference rounds twice.
template <typename Value>
GRT_HD inline Value RoundedProduct(Value a, Value b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<Value, float>) return __fmul_rn(a, b);
  if constexpr (std::is_same_v<Value, double>) return __dmul_rn(a, b);
#endif
  return Apply(Operator::kProduct, a, b);
}

// `present` has a bit for each rank that contributes; at least one.
template <typename Element, uint32_t kRanks>
GRT_HD inline uint64_t ReduceWord(const uint64_t (&words)[kRanks], uint32_t present, Operator op,
                                  uint32_t ranks) {
  using Bits = typename Element::Bits;
  using Value = typename Element::Value;
  uint64_t result = 0;
  GRT_UNROLL
  for (uint32_t e = 0; e < 8 / sizeof(Bits); ++e) {
    Value sum{};
    bool first = true;
    GRT_UNROLL
    for (uint32_t p = 0; p < kRanks; ++p) {
      if ((present >> p & 1) == 0) continue;
      const Value value = Element::Decode(ElementOf<Bits>(words[p], e));
      sum = first ? value : Apply(op, sum, value);
      first = false;
    }
    if (op == Operator::kAverage) sum = static_cast<Value>(sum / static_cast<Value>(ranks));
    result |= WordOf<Bits>(Element::Encode(sum), e);
  }
  return result;
}

// The same for a type that is known only at run time: small code, but slower. `scalars`: for
// PreMulSum.
template <typename Element>
GRT_HD inline uint64_t ReduceWordSlowly(const uint64_t* words, uint32_t present, Operator op,
                                        uint32_t ranks, const uint64_t* scalars) {
  using Bits = typename Element::Bits;
  using Value = typename Element::Value;
  uint64_t result = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (uint32_t e = 0; e < 8 / sizeof(Bits); ++e) {
    Value sum{};
    bool first = true;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t p = 0; p < ranks; ++p) {
      if ((present >> p & 1) == 0) continue;
      Value value = Element::Decode(ElementOf<Bits>(words[p], e));
      if (op == Operator::kPreMulSum) {
        const Value scalar = Element::Decode(ElementOf<Bits>(scalars[p], 0));
        value = RoundedProduct(value, scalar);
      }
      sum = first ? value : Apply(op, sum, value);
      first = false;
    }
    if (op == Operator::kAverage) sum = static_cast<Value>(sum / static_cast<Value>(ranks));
    result |= WordOf<Bits>(Element::Encode(sum), e);
  }
  return result;
}

GRT_APART GRT_HD inline uint64_t ReduceAnyWord(const uint64_t* words, uint32_t present,
                                               DataType type, Operator op, uint32_t ranks,
                                               const uint64_t* scalars) {
  switch (type) {
    case DataType::kInt8:
      return ReduceWordSlowly<PlainElement<int8_t>>(words, present, op, ranks, scalars);
    case DataType::kUint8:
      return ReduceWordSlowly<PlainElement<uint8_t>>(words, present, op, ranks, scalars);
    case DataType::kInt32:
      return ReduceWordSlowly<PlainElement<int32_t>>(words, present, op, ranks, scalars);
    case DataType::kUint32:
      return ReduceWordSlowly<PlainElement<uint32_t>>(words, present, op, ranks, scalars);
    case DataType::kInt64:
      return ReduceWordSlowly<PlainElement<int64_t>>(words, present, op, ranks, scalars);
    case DataType::kUint64:
      return ReduceWordSlowly<PlainElement<uint64_t>>(words, present, op, ranks, scalars);
    case DataType::kHalf:
      return ReduceWordSlowly<HalfElement>(words, present, op, ranks, scalars);
    case DataType::kFloat:
      return ReduceWordSlowly<FloatElement>(words, present, op, ranks, scalars);
    case DataType::kDouble:
      return ReduceWordSlowly<PlainElement<double>>(words, present, op, ranks, scalars);
    case DataType::kBfloat16:
      return ReduceWordSlowly<Bfloat16Element>(words, present, op, ranks, scalars);
    case DataType::kFloat8E4M3:
      return ReduceWordSlowly<SmallElement<Float8E4M3>>(words, present, op, ranks, scalars);
    case DataType::kFloat8E5M2:
      return ReduceWordSlowly<SmallElement<Float8E5M2>>(words, present, op, ranks, scalars);
  }
  return 0;
}

// T is an element type, AnyType or MoveOnly (never called). `scalars`: of all ranks in `present`,
// for PreMulSum, which only AnyType supports.
template <typename T, uint32_t kRanks>
GRT_HD inline uint64_t Reduce(const uint64_t (&words)[kRanks], uint32_t present, DataType type,
                              Operator op, uint32_t ranks,
                              [[maybe_unused]] const uint64_t* scalars = nullptr) {
  if constexpr (std::is_same_v<T, AnyType>) {
    return ReduceAnyWord(words, present, type, op, ranks, scalars);
  } else if constexpr (std::is_same_v<T, MoveOnly>) {
    return 0;
  } else {
    return ReduceWord<T>(words, present, op, ranks);
  }
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_PROTOCOL_REDUCE_DEVICE_H_
