// The arithmetic of a reduction over all members at once: each element is ((x0 + x1) + x2) + ... in
// rank order, computed in 32 bits for floats of fewer and rounded once, an average divided last.
// Hence the same bits whatever the algorithm, the chunks, the channels and the schedule are.
// (elements.h's Combine rounds after each operation: it is for plans that pass partial sums on.)
//
// Portable C++20; no CUDA, no library.
#ifndef GORDIAN_RUNTIME_CORE_REDUCE_H_
#define GORDIAN_RUNTIME_CORE_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/core/elements.h"

namespace gordian::runtime {

struct Contribution {
  const void* data = nullptr;
  uint64_t scalar = 0;  // kPreMulSum: the bits of one element
};

namespace internal {

// How an element lies in memory, and what it is computed in.
template <typename T>
struct PlainFormat {
  using Bits = T;
  using Wide = T;
  static Wide Decode(Bits x) { return x; }
  static Bits Encode(Wide x) { return x; }
};
template <typename Small>
struct SmallFormat {
  using Bits = typename Small::Bits;
  using Wide = float;
  static Wide Decode(Bits x) { return Small::Decode(x); }
  static Bits Encode(Wide x) { return Small::Encode(x); }
};

// The wide values of a block stay in the first-level cache while all contributions pass over it.
inline constexpr size_t kReduceBlock = 1024;

template <Operator op, typename Format>
void ReduceAs(const Contribution* in, uint32_t n, size_t count, void* out) {
  using Bits = typename Format::Bits;
  using Wide = typename Format::Wide;
  constexpr bool kScaled = op == Operator::kPreMulSum;
  Wide sum[kReduceBlock];
  const auto load = [](const unsigned char* at, size_t i) {
    Bits bits;
    std::memcpy(&bits, at + i * sizeof bits, sizeof bits);
    return Format::Decode(bits);
  };
  const auto scalar_of = [](const Contribution& c) {
    Bits bits;
    std::memcpy(&bits, &c.scalar, sizeof bits);
    return Format::Decode(bits);
  };
  for (size_t start = 0; start < count; start += kReduceBlock) {
    const size_t block = count - start < kReduceBlock ? count - start : kReduceBlock;
    auto* to = static_cast<unsigned char*>(out) + start * sizeof(Bits);
    for (uint32_t k = 0; k < n; ++k) {
      const auto* from = static_cast<const unsigned char*>(in[k].data) + start * sizeof(Bits);
      [[maybe_unused]] Wide scalar{};
      if constexpr (kScaled) scalar = scalar_of(in[k]);
      const auto value = [&](size_t i) {
        if constexpr (kScaled) return Apply(Operator::kProduct, load(from, i), scalar);
        return load(from, i);
      };
      if (k == 0) {
        for (size_t i = 0; i < block; ++i) sum[i] = value(i);
      } else {
        for (size_t i = 0; i < block; ++i) sum[i] = Apply(op, sum[i], value(i));
      }
    }
    if constexpr (op == Operator::kAverage) {
      // Towards zero for integers, without narrowing the number of members first.
      using Divisor =
          std::conditional_t<std::is_integral_v<Wide>,
                             std::conditional_t<std::is_signed_v<Wide>, int64_t, uint64_t>, Wide>;
      for (size_t i = 0; i < block; ++i) {
        sum[i] = static_cast<Wide>(static_cast<Divisor>(sum[i]) / static_cast<Divisor>(n));
      }
    }
    for (size_t i = 0; i < block; ++i) {
      const Bits bits = Format::Encode(sum[i]);
      std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
  }
}

template <typename Format>
void ReduceWith(Operator op, const Contribution* in, uint32_t n, size_t count, void* out) {
  switch (op) {
    case Operator::kSum:
      return ReduceAs<Operator::kSum, Format>(in, n, count, out);
    case Operator::kProduct:
      return ReduceAs<Operator::kProduct, Format>(in, n, count, out);
    case Operator::kMax:
      return ReduceAs<Operator::kMax, Format>(in, n, count, out);
    case Operator::kMin:
      return ReduceAs<Operator::kMin, Format>(in, n, count, out);
    case Operator::kAverage:
      return ReduceAs<Operator::kAverage, Format>(in, n, count, out);
    case Operator::kPreMulSum:
      return ReduceAs<Operator::kPreMulSum, Format>(in, n, count, out);
  }
}

}  // namespace internal

// `out` may be one of the inputs (same address), else must not overlap them. No alignment needed.
inline void Reduce(DataType type, Operator op, const Contribution* in, uint32_t n, size_t count,
                   void* out) {
  using internal::PlainFormat;
  using internal::ReduceWith;
  using internal::SmallFormat;
  switch (type) {
    case DataType::kInt8:
      return ReduceWith<PlainFormat<int8_t>>(op, in, n, count, out);
    case DataType::kUint8:
      return ReduceWith<PlainFormat<uint8_t>>(op, in, n, count, out);
    case DataType::kInt32:
      return ReduceWith<PlainFormat<int32_t>>(op, in, n, count, out);
    case DataType::kUint32:
      return ReduceWith<PlainFormat<uint32_t>>(op, in, n, count, out);
    case DataType::kInt64:
      return ReduceWith<PlainFormat<int64_t>>(op, in, n, count, out);
    case DataType::kUint64:
      return ReduceWith<PlainFormat<uint64_t>>(op, in, n, count, out);
    case DataType::kHalf:
      return ReduceWith<SmallFormat<Half>>(op, in, n, count, out);
    case DataType::kFloat:
      return ReduceWith<PlainFormat<float>>(op, in, n, count, out);
    case DataType::kDouble:
      return ReduceWith<PlainFormat<double>>(op, in, n, count, out);
    case DataType::kBfloat16:
      return ReduceWith<SmallFormat<Bfloat16>>(op, in, n, count, out);
    case DataType::kFloat8E4M3:
      return ReduceWith<SmallFormat<Float8E4M3>>(op, in, n, count, out);
    case DataType::kFloat8E5M2:
      return ReduceWith<SmallFormat<Float8E5M2>>(op, in, n, count, out);
  }
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_REDUCE_H_
