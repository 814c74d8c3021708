// The element types and operators of NCCL's reductions, on any processor. 16- and 8-bit floats are
// computed in 32 bits and rounded to nearest even after each operation; 8-bit ones saturate.
// Integers wrap. An average is a sum that is divided once, at the end.
//
// Portable C++20; no CUDA, no library, no tables.
#ifndef GORDIAN_RUNTIME_CORE_ELEMENTS_H_
#define GORDIAN_RUNTIME_CORE_ELEMENTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifndef GRT_HD
#ifdef __CUDACC__
#define GRT_HD __host__ __device__
#else
#define GRT_HD
#endif
#endif

namespace gordian::runtime {

// Numbered as ncclDataType_t and ncclRedOp_t.
enum class DataType : uint8_t {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  kBfloat16,
  kFloat8E4M3,
  kFloat8E5M2,
};
inline constexpr int kDataTypes = 12;
enum class Operator : uint8_t { kSum, kProduct, kMax, kMin, kAverage, kPreMulSum };
inline constexpr int kOperators = 5;  // those without a scalar

// A float of fewer than 32 bits.
template <int kExponent, int kMantissa, uint32_t kOverflow, uint32_t kNan>
struct SmallFloat {
  using Bits = std::conditional_t<(kExponent + kMantissa > 8), uint16_t, uint8_t>;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kExponent + kMantissa);
  // The first code above all finite numbers.
  static constexpr uint32_t kEndOfFinite =
      kNan == kSign - 1 ? kNan : ((1u << kExponent) - 1) << kMantissa;

  static constexpr float Decode(Bits code) {
    const uint32_t magnitude = code & (kSign - 1);
    const uint32_t sign = (code & kSign) != 0 ? 0x80000000u : 0;
    const uint32_t exponent = magnitude >> kMantissa;
    const uint32_t mantissa = magnitude & ((1u << kMantissa) - 1);
    if (magnitude >= kEndOfFinite) {
      const bool infinite = kNan != kSign - 1 && mantissa == 0;
      return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
    }
    if (exponent == 0) {  // exact: a small integer times a power of two
      float value = static_cast<float>(mantissa);
      for (int i = 0; i < kBias - 1 + kMantissa; ++i) value *= 0.5f;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | (exponent - kBias + 127) << 23 |
                                mantissa << (23 - kMantissa));
  }

  static constexpr Bits Encode(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 31) != 0 ? kSign : 0;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<Bits>(sign | kNan);
    if (magnitude == 0x7f800000u) return static_cast<Bits>(sign | kOverflow);
    int exponent = static_cast<int>(magnitude >> 23) - 127;
    uint32_t mantissa = magnitude & 0x7fffffu;
    if (exponent == -127) {
      exponent = -126;
    } else {
      mantissa |= 0x800000u;
    }
    int shift = 23 - kMantissa;
    const bool subnormal = exponent < 1 - kBias;
    if (subnormal) shift += 1 - kBias - exponent;
    if (shift > 25) return static_cast<Bits>(sign);
    uint32_t rounded = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
    uint32_t code = rounded;
    if (!subnormal)
      code += (static_cast<uint32_t>(exponent + kBias) << kMantissa) - (1u << kMantissa);
    return static_cast<Bits>(sign | (code >= kEndOfFinite ? kOverflow : code));
  }
};
using Half = SmallFloat<5, 10, 0x7c00, 0x7e00>;
using Bfloat16 = SmallFloat<8, 7, 0x7f80, 0x7fc0>;
using Float8E4M3 = SmallFloat<4, 3, 0x7e, 0x7f>;  // no infinities
using Float8E5M2 = SmallFloat<5, 2, 0x7b, 0x7e>;

GRT_HD inline constexpr size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
      return 1;
    case DataType::kHalf:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kDouble:
      return 8;
  }
  return 0;
}

template <typename T>
GRT_HD constexpr T Apply(Operator op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;  // wraps
    if (op == Operator::kSum || op == Operator::kAverage || op == Operator::kPreMulSum) {
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    }
    if (op == Operator::kProduct)
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  } else {
    if (op == Operator::kSum || op == Operator::kAverage || op == Operator::kPreMulSum) {
      return a + b;
    }
    if (op == Operator::kProduct) return a * b;
  }
  if (op == Operator::kMax) return a < b ? b : a;
  return b < a ? b : a;
}

namespace internal {

template <typename Load, typename Store, typename F>
void ForEach(void* own, const void* other, size_t count, size_t size, Load load, Store store, F f) {
  auto* to = static_cast<unsigned char*>(own);
  const auto* from = static_cast<const unsigned char*>(other);
  for (size_t i = 0; i < count; ++i, to += size, from += size) store(to, f(load(to), load(from)));
}

template <typename T, typename F>
void ForPlain(void* own, const void* other, size_t count, F f) {
  ForEach(
      own, other, count, sizeof(T),
      [](const unsigned char* at) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
      },
      [](unsigned char* at, T value) { std::memcpy(at, &value, sizeof value); }, f);
}

template <typename Format, typename F>
void ForSmall(void* own, const void* other, size_t count, F f) {
  using Bits = typename Format::Bits;
  ForEach(
      own, other, count, sizeof(Bits),
      [](const unsigned char* at) {
        Bits bits;
        std::memcpy(&bits, at, sizeof bits);
        return Format::Decode(bits);
      },
      [](unsigned char* at, float value) {
        const Bits bits = Format::Encode(value);
        std::memcpy(at, &bits, sizeof bits);
      },
      f);
}

template <typename F>
void ForType(DataType type, void* own, const void* other, size_t count, F f) {
  switch (type) {
    case DataType::kInt8:
      return ForPlain<int8_t>(own, other, count, f);
    case DataType::kUint8:
      return ForPlain<uint8_t>(own, other, count, f);
    case DataType::kInt32:
      return ForPlain<int32_t>(own, other, count, f);
    case DataType::kUint32:
      return ForPlain<uint32_t>(own, other, count, f);
    case DataType::kInt64:
      return ForPlain<int64_t>(own, other, count, f);
    case DataType::kUint64:
      return ForPlain<uint64_t>(own, other, count, f);
    case DataType::kHalf:
      return ForSmall<Half>(own, other, count, f);
    case DataType::kFloat:
      return ForPlain<float>(own, other, count, f);
    case DataType::kDouble:
      return ForPlain<double>(own, other, count, f);
    case DataType::kBfloat16:
      return ForSmall<Bfloat16>(own, other, count, f);
    case DataType::kFloat8E4M3:
      return ForSmall<Float8E4M3>(own, other, count, f);
    case DataType::kFloat8E5M2:
      return ForSmall<Float8E5M2>(own, other, count, f);
  }
}

}  // namespace internal

// own = own (op) other, element by element.
inline void Combine(DataType type, Operator op, void* own, const void* other, size_t count) {
  internal::ForType(type, own, other, count, [op](auto a, auto b) { return Apply(op, a, b); });
}

// The last step of an average over `ranks`.
inline void Divide(DataType type, void* own, size_t count, uint32_t ranks) {
  internal::ForType(type, own, own, count, [ranks](auto a, auto) {
    return static_cast<decltype(a)>(a / static_cast<decltype(a)>(ranks));
  });
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_ELEMENTS_H_
