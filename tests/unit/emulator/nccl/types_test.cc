// Every type with every operator, on 1 to 8 ranks, in the three kinds that reduce. Expected values
// are computed here, in double or in wrapping integers, from unrelated pseudo-random inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/unit/emulator/nccl/elements.h"
#include "tests/unit/emulator/nccl/job.h"
#include "tests/unit/emulator/nccl/members.h"

namespace gordian::emu::test {
namespace {

enum class Op { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };
constexpr Op kAllOps[] = {Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kAvg, Op::kPreMulSum};
constexpr size_t kSmall = 4096;
constexpr size_t kLarge = 1 << 20;
constexpr int kMostRanks = 8;

uint32_t Mixed(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ (x >> 16);
}

// Floats: 8 steps between 0.5 and 2 of either sign, which every format has exactly, so that
// products of 8 neither overflow nor underflow in any of them. Integers: any bits.
template <typename T>
T Input(int rank, size_t index) {
  uint32_t bits = Mixed(static_cast<uint32_t>(index) * 16 + rank + 1);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(bits) << 32 | Mixed(bits));
  } else {
    constexpr double kSteps[] = {0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5, 2.0};
    double value = kSteps[bits % 8];
    return Element<T>::FromDouble(bits & 8 ? -value : value);
  }
}

int Factor(int rank) { return rank % 3 + 1; }

// Integers wrap; the average is the wrapped sum divided towards zero.
template <typename T>
T ExpectedInteger(Op op, int nranks, size_t index) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  uint64_t sum = 0, product = 1;
  T most = Input<T>(0, index), least = most;
  for (int r = 0; r < nranks; ++r) {
    T x = Input<T>(r, index);
    sum += static_cast<uint64_t>(x) * (op == Op::kPreMulSum ? Factor(r) : 1);
    product *= static_cast<uint64_t>(x);
    most = std::max(most, x);
    least = std::min(least, x);
  }
  switch (op) {
    case Op::kProd:
      return static_cast<T>(product);
    case Op::kMax:
      return most;
    case Op::kMin:
      return least;
    case Op::kAvg:
      return static_cast<T>(static_cast<Wide>(static_cast<T>(sum)) / static_cast<Wide>(nranks));
    default:
      return static_cast<T>(sum);
  }
}

struct Range {
  double low;
  double high;
};

// What any order of the operations, each rounded in T, may come to.
template <typename T>
Range ExpectedFloat(Op op, int nranks, size_t index) {
  double result = 0, magnitude = 0, product = 1;
  double most = Element<T>::ToDouble(Input<T>(0, index)), least = most;
  for (int r = 0; r < nranks; ++r) {
    double x = Element<T>::ToDouble(Input<T>(r, index));
    most = std::max(most, x);
    least = std::min(least, x);
    product *= x;
    if (op == Op::kPreMulSum) x *= Factor(r);
    result += x;
    magnitude += std::fabs(x);
  }
  if (op == Op::kMax) return {most, most};
  if (op == Op::kMin) return {least, least};
  if (nranks == 1 && op != Op::kPreMulSum) return {result, result};
  int roundings = nranks - 1;
  if (op == Op::kProd) {
    result = product;
    magnitude = std::fabs(product);
  } else if (op == Op::kAvg) {
    result /= nranks;
    magnitude /= nranks;
    ++roundings;
  } else if (op == Op::kPreMulSum) {
    ++roundings;
  } else if (nranks == 2) {
    // One addition: there is only one right answer.
    double rounded = Element<T>::ToDouble(Element<T>::FromDouble(result));
    return {rounded, rounded};
  }
  // kEpsilon is a whole step; a rounding is wrong by half of one at most.
  double bound = (std::pow(1 + Element<T>::kEpsilon / 2, roundings) - 1) * magnitude;
  // 8-bit formats have few exponents: what is small is rounded to a multiple of their least number.
  if (sizeof(T) == 1) bound += 0x1p-10 * roundings;
  return {result - bound, result + bound};
}

// The whole of one reduction over `count` elements, known once for all ranks and kinds.
template <typename T>
struct Reference {
  Reference(Op op, int nranks, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        exact.push_back(ExpectedInteger<T>(op, nranks, i));
      } else {
        ranges.push_back(ExpectedFloat<T>(op, nranks, i));
      }
    }
  }
  bool Holds(const std::vector<T>& got, size_t first) const {
    for (size_t i = 0; i < got.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        if (got[i] == exact[first + i]) continue;
      } else {
        double value = Element<T>::ToDouble(got[i]);
        if (value >= ranges[first + i].low && value <= ranges[first + i].high) continue;
        std::fprintf(stderr, "index %zu: %g is not in [%g, %g]\n", first + i, value,
                     ranges[first + i].low, ranges[first + i].high);
      }
      return false;
    }
    return true;
  }
  std::vector<T> exact;
  std::vector<Range> ranges;
};

template <typename T>
ncclRedOp_t Operator(Op op, ncclDataType_t type, const Member& member) {
  constexpr ncclRedOp_t kBuiltIn[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
  if (op != Op::kPreMulSum) return kBuiltIn[static_cast<int>(op)];
  T factor = Element<T>::FromDouble(Factor(member.rank));
  ncclRedOp_t made = ncclSum;
  REQUIRE_NCCL(
      ncclRedOpCreatePreMulSum(&made, &factor, type, ncclScalarHostImmediate, member.comm));
  return made;
}

template <typename T>
void Check(Members& members, ncclDataType_t type, Op op, size_t count) {
  int n = members.nranks();
  // All kinds reduce the same `count` elements; reduce-scatter takes as many as divide evenly.
  size_t block = count / n;
  Reference<T> reference(op, n, count);
  auto sends = members.Buffers(count * sizeof(T));
  auto recvs = members.Buffers(count * sizeof(T));
  std::vector<ncclRedOp_t> ops;
  for (const Member& member : members.list()) {
    ops.push_back(Operator<T>(op, type, member));
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = Input<T>(member.rank, i);
    sends[member.rank]->Write(values);
  }
  auto require = [&](int rank, size_t first, size_t length, const char* kind) {
    if (reference.Holds(recvs[rank]->template Read<T>(length), first)) return;
    std::fprintf(stderr, "%s, type %d, op %d, %d ranks, rank %d\n", kind, type,
                 static_cast<int>(op), n, rank);
    REQUIRE(!"a wrong result");
  };
  members.Run([&](size_t i, const Member& m) {
    REQUIRE_NCCL(
        ncclAllReduce(sends[i]->As<T>(), recvs[i]->As<T>(), count, type, ops[i], m.comm, m.stream));
  });
  for (int r = 0; r < n; ++r) require(r, 0, count, "all-reduce");
  members.Run([&](size_t i, const Member& m) {
    REQUIRE_NCCL(ncclReduceScatter(sends[i]->As<T>(), recvs[i]->As<T>(), block, type, ops[i],
                                   m.comm, m.stream));
  });
  for (int r = 0; r < n; ++r) require(r, r * block, block, "reduce-scatter");
  int root = n - 1;
  members.Run([&](size_t i, const Member& m) {
    REQUIRE_NCCL(ncclReduce(sends[i]->As<T>(), recvs[i]->As<T>(), count, type, ops[i], root, m.comm,
                            m.stream));
  });
  require(root, 0, count, "reduce");
  if (op != Op::kPreMulSum) return;
  for (const Member& m : members.list()) REQUIRE_NCCL(ncclRedOpDestroy(ops[m.rank], m.comm));
}

TEST(Types, EveryTypeWithEveryOperator) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                for (int n = 1; n <= kMostRanks; ++n) {
                  Members members = Members::OfAllDevices(rank, n);
                  ForEachType([&]<typename T>(T, ncclDataType_t type) {
                    for (Op op : kAllOps) Check<T>(members, type, op, kSmall);
                  });
                  members.Destroy();
                }
              }).Succeeded());
}

TEST(Types, LargeOnes) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                for (int n = 1; n <= kMostRanks; ++n) {
                  Members members = Members::OfAllDevices(rank, n);
                  for (Op op : {Op::kSum, Op::kMax}) {
                    Check<int32_t>(members, ncclInt32, op, kLarge);
                    Check<float>(members, ncclFloat32, op, kLarge);
                    Check<__nv_bfloat16>(members, ncclBfloat16, op, kLarge);
                  }
                  members.Destroy();
                }
              }).Succeeded());
}

// The reference itself can say no.
TEST(Types, ReferenceNoticesOneWrongElement) {
  Reference<float> floats(Op::kSum, 3, 100);
  Reference<int8_t> integers(Op::kProd, 3, 100);
  std::vector<float> right_floats(100);
  std::vector<int8_t> right_integers = integers.exact;
  for (size_t i = 0; i < 100; ++i) {
    right_floats[i] = Input<float>(0, i) + Input<float>(1, i) + Input<float>(2, i);
  }
  EXPECT_TRUE(floats.Holds(right_floats, 0));
  EXPECT_TRUE(integers.Holds(right_integers, 0));
  right_floats[99] += 0x1p-18f;
  right_integers[0] ^= 1;
  EXPECT_FALSE(floats.Holds(right_floats, 0));
  EXPECT_FALSE(integers.Holds(right_integers, 0));
}

}  // namespace
}  // namespace gordian::emu::test
