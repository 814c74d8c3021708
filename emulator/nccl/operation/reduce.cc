#include "emulator/nccl/operation/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "emulator/nccl/operation/float_formats.h"

namespace gordian::emu::nccl {
namespace {

// Storage: an element in memory. Wide: the type for computing.
template <typename T>
struct Plain {
  using Storage = T;
  using Wide = T;
  static Wide Load(Storage x) { return x; }
  static Storage Store(Wide x) { return x; }
};

template <typename Bits, float (*load)(Bits), Bits (*store)(float)>
struct Small {
  using Storage = Bits;
  using Wide = float;
  static Wide Load(Storage x) { return load(x); }
  static Storage Store(Wide x) { return store(x); }
};

// Wraps instead of overflowing.
template <typename T, typename F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Largest {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return std::max(a, b);
    return std::fmax(a, b);
  }
};
struct Smallest {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return std::min(a, b);
    return std::fmin(a, b);
  }
};

template <typename T>
T Divide(T value, int divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(value / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(value / static_cast<uint64_t>(divisor));
  }
}

template <typename Type>
typename Type::Wide LoadAt(const std::byte* data, size_t index) {
  typename Type::Storage element;
  std::memcpy(&element, data + index * sizeof(element), sizeof(element));
  return Type::Load(element);
}

template <typename Type>
typename Type::Wide ScalarOf(const Contribution& contribution) {
  typename Type::Storage element;
  std::memcpy(&element, &contribution.scalar, sizeof(element));
  return Type::Load(element);
}

// Small enough to stay in the cache while all contributions pass.
constexpr size_t kBlock = 2048;

template <typename Type, typename Operator>
void ReduceBlocks(Operator combine, std::span<const Contribution> contributions, size_t count,
                  int divisor, std::byte* out) {
  using Wide = typename Type::Wide;
  using Storage = typename Type::Storage;
  Wide sum[kBlock];
  for (size_t start = 0; start < count; start += kBlock) {
    size_t n = std::min(kBlock, count - start);
    bool first = true;
    for (const Contribution& contribution : contributions) {
      const std::byte* data = contribution.data + start * sizeof(Storage);
      if (contribution.scaled) {
        Wide scalar = ScalarOf<Type>(contribution);
        for (size_t i = 0; i < n; ++i) {
          Wide x = Multiply{}(LoadAt<Type>(data, i), scalar);
          sum[i] = first ? x : combine(sum[i], x);
        }
      } else if (first) {
        for (size_t i = 0; i < n; ++i) sum[i] = LoadAt<Type>(data, i);
      } else {
        for (size_t i = 0; i < n; ++i) sum[i] = combine(sum[i], LoadAt<Type>(data, i));
      }
      first = false;
    }
    if (divisor != 1) {
      for (size_t i = 0; i < n; ++i) sum[i] = Divide(sum[i], divisor);
    }
    for (size_t i = 0; i < n; ++i) {
      Storage element = Type::Store(sum[i]);
      std::memcpy(out + (start + i) * sizeof(Storage), &element, sizeof(element));
    }
  }
}

template <typename Type>
void ReduceType(Reduction reduction, std::span<const Contribution> contributions, size_t count,
                int ranks, std::byte* out) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kPreMulSum:
      return ReduceBlocks<Type>(Add{}, contributions, count, 1, out);
    case Reduction::kAvg:
      return ReduceBlocks<Type>(Add{}, contributions, count, ranks, out);
    case Reduction::kProd:
      return ReduceBlocks<Type>(Multiply{}, contributions, count, 1, out);
    case Reduction::kMax:
      return ReduceBlocks<Type>(Largest{}, contributions, count, 1, out);
    case Reduction::kMin:
      return ReduceBlocks<Type>(Smallest{}, contributions, count, 1, out);
  }
}

}  // namespace

size_t ElementSize(uint32_t datatype) {
  switch (datatype) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

void Reduce(Reduction reduction, ncclDataType_t datatype,
            std::span<const Contribution> contributions, size_t count, int ranks, void* out) {
  auto* bytes = static_cast<std::byte*>(out);
  auto reduce = [&]<typename Type>(Type) {
    ReduceType<Type>(reduction, contributions, count, ranks, bytes);
  };
  switch (datatype) {
    case ncclInt8:
      return reduce(Plain<int8_t>{});
    case ncclUint8:
      return reduce(Plain<uint8_t>{});
    case ncclInt32:
      return reduce(Plain<int32_t>{});
    case ncclUint32:
      return reduce(Plain<uint32_t>{});
    case ncclInt64:
      return reduce(Plain<int64_t>{});
    case ncclUint64:
      return reduce(Plain<uint64_t>{});
    case ncclFloat16:
      return reduce(Small<uint16_t, HalfToFloat, FloatToHalf>{});
    case ncclFloat32:
      return reduce(Plain<float>{});
    case ncclFloat64:
      return reduce(Plain<double>{});
    case ncclBfloat16:
      return reduce(Small<uint16_t, Bfloat16ToFloat, FloatToBfloat16>{});
    case ncclFloat8e4m3:
      return reduce(Small<uint8_t, Float8E4m3ToFloat, FloatToFloat8E4m3>{});
    case ncclFloat8e5m2:
      return reduce(Small<uint8_t, Float8E5m2ToFloat, FloatToFloat8E5m2>{});
    default:
      return;  // refused when the operation was called
  }
}

}  // namespace gordian::emu::nccl
