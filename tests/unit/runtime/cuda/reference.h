// What collectives are to give, written down once more: without the runtime's reductions, block by
// block.
#ifndef GORDIAN_TESTS_UNIT_RUNTIME_CUDA_REFERENCE_H_
#define GORDIAN_TESTS_UNIT_RUNTIME_CUDA_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/core/elements.h"
#include "runtime/core/op.h"

namespace gordian::runtime::cuda {

// A number as an element, with the type's rounding, wrapping and saturation.
inline void Encode(DataType type, double value, char* at) {
  const auto write = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (type) {
    case DataType::kInt8:
      return write(static_cast<int8_t>(static_cast<int64_t>(value)));
    case DataType::kUint8:
      return write(static_cast<uint8_t>(static_cast<int64_t>(value)));
    case DataType::kInt32:
      return write(static_cast<int32_t>(value));
    case DataType::kUint32:
      return write(static_cast<uint32_t>(value));
    case DataType::kInt64:
      return write(static_cast<int64_t>(value));
    case DataType::kUint64:
      return write(static_cast<uint64_t>(value));
    case DataType::kHalf:
      return write(Half::Encode(static_cast<float>(value)));
    case DataType::kFloat:
      return write(static_cast<float>(value));
    case DataType::kDouble:
      return write(value);
    case DataType::kBfloat16:
      return write(Bfloat16::Encode(static_cast<float>(value)));
    case DataType::kFloat8E4M3:
      return write(Float8E4M3::Encode(static_cast<float>(value)));
    case DataType::kFloat8E5M2:
      return write(Float8E5M2::Encode(static_cast<float>(value)));
  }
}

inline bool IsInteger(DataType type) { return static_cast<int>(type) < 6; }

// Small enough that sums and products of eight are exact where they are stored in 32 bits.
inline double Value(uint32_t rank, uint64_t index) {
  return 1 + (rank * 7 + index * 3 + index / 11) % 2;
}

// What PreMulSum multiplies a rank's elements by.
inline double Scalar(uint32_t rank) { return 1 + rank % 3; }

struct Case {
  OpKind kind = OpKind::kAllReduce;
  DataType type = DataType::kFloat;
  Operator op = Operator::kSum;
  uint64_t count = 0;
  uint32_t root = 0;
  bool in_place = false;
  uint32_t misaligned = 0;  // bytes, a multiple of the element's size

  std::string Name() const {
    return "kind " + std::to_string(static_cast<int>(kind)) + " type " +
           std::to_string(static_cast<int>(type)) + " op " + std::to_string(static_cast<int>(op)) +
           " count " + std::to_string(count) + " root " + std::to_string(root) +
           (in_place ? " in place" : "") + " at " + std::to_string(misaligned);
  }
};

inline double Combine(Operator op, double a, double b) {
  switch (op) {
    case Operator::kProduct:
      return a * b;
    case Operator::kMax:
      return std::max(a, b);
    case Operator::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

// Element `index` of the output of `rank`.
inline double Expected(const Case& c, uint32_t ranks, uint32_t rank, uint64_t index) {
  const uint64_t block = index / c.count, at = index % c.count;
  const auto reduced = [&](uint64_t i) {
    const auto own = [&](uint32_t p) {
      return Value(p, i) * (c.op == Operator::kPreMulSum ? Scalar(p) : 1);
    };
    double sum = own(0);
    for (uint32_t p = 1; p < ranks; ++p) sum = Combine(c.op, sum, own(p));
    if (c.op == Operator::kAverage) sum = IsInteger(c.type) ? std::floor(sum / ranks) : sum / ranks;
    return sum;
  };
  switch (c.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduce:
      return reduced(index);
    case OpKind::kReduceScatter:
      return reduced(rank * c.count + index);
    case OpKind::kAllGather:
    case OpKind::kGather:
      return Value(static_cast<uint32_t>(block), at);
    case OpKind::kAllToAll:
      return Value(static_cast<uint32_t>(block), rank * c.count + at);
    case OpKind::kScatter:
      return Value(c.root, rank * c.count + index);
    default:
      return Value(c.root, index);
  }
}

inline constexpr OpKind kAll[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                                  OpKind::kBroadcast, OpKind::kReduce,    OpKind::kAllToAll,
                                  OpKind::kGather,    OpKind::kScatter,   OpKind::kSend};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_TESTS_UNIT_RUNTIME_CUDA_REFERENCE_H_
