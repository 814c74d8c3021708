// Compiled so that its loops become vector instructions, and products are not contracted with sums:
// that would change bits (CMakeLists.txt).
#include "runtime/core/reduce.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace gordian::runtime {
namespace {

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

// The two 16-bit floats once more, without branches. Of a NaN, Decode keeps the payload, which
// Encode drops; else the values are those of elements.h.
struct Bfloat16Format {
  using Bits = uint16_t;
  using Wide = float;
  static Wide Decode(Bits x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
  static Bits Encode(Wide x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded =
        (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to even; may carry to infinity
    const uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0;
    return static_cast<Bits>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
};
struct HalfFormat {
  using Bits = uint16_t;
  using Wide = float;
  static Wide Decode(Bits x) {
    const uint32_t magnitude = x & 0x7fffu;
    // The exponent's bias differs by 112; the product is exact, for subnormal numbers too.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000 : 0;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special |
                                (static_cast<uint32_t>(x) & 0x8000) << 16);
  }
  static Bits Encode(Wide x) {
    const uint32_t sign = std::bit_cast<uint32_t>(x) >> 16 & 0x8000;
    const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7fffffff;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Adding 0.5 leaves a subnormal result's bits, rounded by the addition, at the sum's end.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
    uint32_t code = magnitude < 113u << 23 ? subnormal : normal;
    code = magnitude >= 143u << 23 ? 0x7c00 : code;
    code = magnitude > 0x7f800000 ? 0x7e00 : code;
    return static_cast<Bits>(sign | code);
  }
};

// The sums of a block stay in the first-level cache while all contributions pass over it.
constexpr size_t kReduceBlock = 1024;

template <Operator op, typename Format>
struct Kernel {
  using Bits = typename Format::Bits;
  using Wide = typename Format::Wide;
  static constexpr bool kScaled = op == Operator::kPreMulSum;

  struct Source {
    explicit Source(const Contribution& c) : at(static_cast<const unsigned char*>(c.data)) {
      if constexpr (kScaled) {
        Bits bits;
        std::memcpy(&bits, &c.scalar, sizeof bits);
        scalar = Format::Decode(bits);
      }
    }
    Wide Value(size_t i) const {
      Bits bits;
      std::memcpy(&bits, at + i * sizeof bits, sizeof bits);
      if constexpr (kScaled) return Apply(Operator::kProduct, Format::Decode(bits), scalar);
      return Format::Decode(bits);
    }
    const unsigned char* at;
    Wide scalar{};
  };

  // An average over n is divided; towards zero for integers, without narrowing n first.
  static Wide Last(Wide sum, uint32_t n) {
    if constexpr (op == Operator::kAverage) {
      using Divisor =
          std::conditional_t<std::is_integral_v<Wide>,
                             std::conditional_t<std::is_signed_v<Wide>, int64_t, uint64_t>, Wide>;
      return static_cast<Wide>(static_cast<Divisor>(sum) / static_cast<Divisor>(n));
    }
    return sum;
  }
  static void Store(unsigned char* to, size_t i, Wide value) {
    const Bits bits = Format::Encode(value);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }

  // An input that is also the output is read at i before it is written there: hence the pragmas.
  static void Run(const Contribution* in, uint32_t n, size_t count, void* out) {
    auto* to = static_cast<unsigned char*>(out);
    const Source first(in[0]);
    if (n == 1) {
#pragma GCC ivdep
      for (size_t i = 0; i < count; ++i) Store(to, i, Last(first.Value(i), n));
      return;
    }
    const Source second(in[1]), last(in[n - 1]);
    if (n == 2) {
#pragma GCC ivdep
      for (size_t i = 0; i < count; ++i) {
        Store(to, i, Last(Apply(op, first.Value(i), second.Value(i)), n));
      }
      return;
    }
    Wide sum[kReduceBlock];
    for (size_t start = 0; start < count; start += kReduceBlock) {
      const size_t block = count - start < kReduceBlock ? count - start : kReduceBlock;
      for (size_t i = 0; i < block; ++i) {
        sum[i] = Apply(op, first.Value(start + i), second.Value(start + i));
      }
      for (uint32_t k = 2; k + 1 < n; ++k) {
        const Source next(in[k]);
        for (size_t i = 0; i < block; ++i) sum[i] = Apply(op, sum[i], next.Value(start + i));
      }
#pragma GCC ivdep
      for (size_t i = 0; i < block; ++i) {
        Store(to, start + i, Last(Apply(op, sum[i], last.Value(start + i)), n));
      }
    }
  }
};

template <typename Format>
void ReduceWith(Operator op, const Contribution* in, uint32_t n, size_t count, void* out) {
  switch (op) {
    case Operator::kSum:
      return Kernel<Operator::kSum, Format>::Run(in, n, count, out);
    case Operator::kProduct:
      return Kernel<Operator::kProduct, Format>::Run(in, n, count, out);
    case Operator::kMax:
      return Kernel<Operator::kMax, Format>::Run(in, n, count, out);
    case Operator::kMin:
      return Kernel<Operator::kMin, Format>::Run(in, n, count, out);
    case Operator::kAverage:
      return Kernel<Operator::kAverage, Format>::Run(in, n, count, out);
    case Operator::kPreMulSum:
      return Kernel<Operator::kPreMulSum, Format>::Run(in, n, count, out);
  }
}

}  // namespace

void Reduce(DataType type, Operator op, const Contribution* in, uint32_t n, size_t count,
            void* out) {
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
      return ReduceWith<HalfFormat>(op, in, n, count, out);
    case DataType::kFloat:
      return ReduceWith<PlainFormat<float>>(op, in, n, count, out);
    case DataType::kDouble:
      return ReduceWith<PlainFormat<double>>(op, in, n, count, out);
    case DataType::kBfloat16:
      return ReduceWith<Bfloat16Format>(op, in, n, count, out);
    case DataType::kFloat8E4M3:
      return ReduceWith<SmallFormat<Float8E4M3>>(op, in, n, count, out);
    case DataType::kFloat8E5M2:
      return ReduceWith<SmallFormat<Float8E5M2>>(op, in, n, count, out);
  }
}

}  // namespace gordian::runtime
