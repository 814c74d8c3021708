// Conversions against CUDA's own, and what mismatching signatures come to.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "emulator/nccl/operation/float_formats.h"
#include "emulator/nccl/operation/mismatch.h"
#include "emulator/nccl/operation/reduce.h"
#include "tests/unit/emulator/nccl/elements.h"

namespace gordian::emu::nccl {
namespace {

// Both not-a-number, or the same bits.
void ExpectSame(float a, float b, uint32_t from) {
  if (std::isnan(a) && std::isnan(b)) return;
  EXPECT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b)) << "from bits " << from;
}

std::vector<float> InterestingFloats() {
  std::vector<float> values = {0.0f,       -0.0f,           1.0f,       INFINITY,     -INFINITY,
                               448.0f,     464.0f,          465.0f,     480.0f,       57344.0f,
                               61440.0f,   65504.0f,        65519.9f,   65520.0f,     0x1p-24f,
                               0x1p-25f,   0x1.000002p-25f, 0x1p-14f,   0x1.ffep-15f, 0x1.fffp-15f,
                               0x1p-9f,    0x1p-10f,        0x1.8p-10f, 0x1p-16f,     0x1p-17f,
                               0x1.8p-17f, 3e38f,           1e-40f};
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    // All exponents that matter, with ties: many low bits zero.
    auto exponent = static_cast<uint32_t>(127 - 30 + random() % 60);
    uint32_t mantissa = static_cast<uint32_t>(random()) & 0x7fffff;
    uint32_t sign = static_cast<uint32_t>(random()) & 1;
    if (i % 2 == 0) mantissa &= ~0u << (10 + random() % 12);
    values.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | (mantissa & 0x7fffff)));
  }
  return values;
}

TEST(FloatFormats, WidenAsCudaDoes) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto raw = static_cast<uint16_t>(bits);
    ExpectSame(HalfToFloat(raw), __half2float(std::bit_cast<__half>(raw)), bits);
    ExpectSame(Bfloat16ToFloat(raw), __bfloat162float(std::bit_cast<__nv_bfloat16>(raw)), bits);
  }
  for (uint32_t bits = 0; bits < 256; ++bits) {
    auto raw = static_cast<uint8_t>(bits);
    ExpectSame(Float8E4m3ToFloat(raw), static_cast<float>(std::bit_cast<__nv_fp8_e4m3>(raw)), bits);
    ExpectSame(Float8E5m2ToFloat(raw), static_cast<float>(std::bit_cast<__nv_fp8_e5m2>(raw)), bits);
  }
}

TEST(FloatFormats, NarrowAsCudaDoes) {
  for (float value : InterestingFloats()) {
    EXPECT_EQ(FloatToHalf(value), std::bit_cast<uint16_t>(__float2half_rn(value))) << value;
    EXPECT_EQ(FloatToBfloat16(value), std::bit_cast<uint16_t>(__float2bfloat16_rn(value))) << value;
    EXPECT_EQ(FloatToFloat8E4m3(value), __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3))
        << value;
    EXPECT_EQ(FloatToFloat8E5m2(value), __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2))
        << value;
  }
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
  EXPECT_TRUE(std::isnan(Bfloat16ToFloat(FloatToBfloat16(NAN))));
  EXPECT_TRUE(std::isnan(Float8E4m3ToFloat(FloatToFloat8E4m3(NAN))));
  EXPECT_TRUE(std::isnan(Float8E5m2ToFloat(FloatToFloat8E5m2(NAN))));
}

template <typename T>
T ReduceTwo(Reduction reduction, ncclDataType_t type, T a, T b) {
  T out = {};
  Contribution contributions[] = {{reinterpret_cast<std::byte*>(&a), false, 0},
                                  {reinterpret_cast<std::byte*>(&b), false, 0}};
  Reduce(reduction, type, contributions, 1, 2, &out);
  return out;
}

TEST(Reduce, IntegersWrapAndAveragesGoTowardsZero) {
  EXPECT_EQ(ReduceTwo<int8_t>(Reduction::kSum, ncclInt8, 100, 100), -56);
  EXPECT_EQ(ReduceTwo<int64_t>(Reduction::kProd, ncclInt64, INT64_MAX, 2), -2);
  EXPECT_EQ(ReduceTwo<int32_t>(Reduction::kAvg, ncclInt32, -3, 0), -1);
  EXPECT_EQ(ReduceTwo<uint32_t>(Reduction::kAvg, ncclUint32, 3, 4), 3u);
  EXPECT_EQ(ReduceTwo<uint8_t>(Reduction::kMax, ncclUint8, 200, 100), 200);
  EXPECT_EQ(ReduceTwo<int8_t>(Reduction::kMax, ncclInt8, static_cast<int8_t>(200), 100), 100);
}

TEST(Reduce, SmallFloatsAreRoundedOnce) {
  // 2048 + 1 + 1 in half: rounding after each step would give 2048.
  uint16_t one = FloatToHalf(1), big = FloatToHalf(2048), out = 0;
  Contribution contributions[] = {{reinterpret_cast<std::byte*>(&big), false, 0},
                                  {reinterpret_cast<std::byte*>(&one), false, 0},
                                  {reinterpret_cast<std::byte*>(&one), false, 0}};
  Reduce(Reduction::kSum, ncclFloat16, contributions, 1, 3, &out);
  EXPECT_EQ(HalfToFloat(out), 2050.0f);
}

// More elements than fit into one block, in place, unaligned.
TEST(Reduce, LongUnalignedInPlace) {
  constexpr size_t kCount = 5000;
  std::vector<std::byte> a(kCount * 4 + 1), b(kCount * 4 + 1);
  for (uint32_t i = 0; i < kCount; ++i) {
    uint32_t other = 7 * i;
    std::memcpy(&a[1 + 4 * i], &i, 4);
    std::memcpy(&b[1 + 4 * i], &other, 4);
  }
  Contribution contributions[] = {{&a[1], false, 0}, {&b[1], true, 3}};
  Reduce(Reduction::kPreMulSum, ncclUint32, contributions, kCount, 2, &a[1]);
  for (uint32_t i = 0; i < kCount; ++i) {
    uint32_t got = 0;
    std::memcpy(&got, &a[1 + 4 * i], 4);
    ASSERT_EQ(got, i + 21 * i);
  }
}

Signature Sig(Kind kind, ncclDataType_t type, uint64_t count, int root = 0) {
  Signature signature;
  signature.kind = kind;
  signature.datatype = type;
  signature.count = count;
  signature.root = root;
  return signature;
}

Fate FateOf(const Signature& own, std::vector<Signature> others) { return DecideFate(own, others); }

TEST(Mismatch, ThreeRanks) {
  Signature big = Sig(Kind::kAllReduce, ncclFloat, 1000),
            small = Sig(Kind::kAllReduce, ncclFloat, 500);
  EXPECT_EQ(FateOf(big, {big, big}), Fate::kCompletes);
  EXPECT_EQ(FateOf(big, {big, small}), Fate::kHangs);
  EXPECT_EQ(FateOf(small, {big, big}), Fate::kHangs);
  EXPECT_EQ(FateOf(small, {big}), Fate::kCompletes);
  EXPECT_EQ(FateOf(big, {}), Fate::kCompletes);
}

TEST(Mismatch, TypesOfOneSizeAreNotNoticed) {
  EXPECT_EQ(FateOf(Sig(Kind::kAllReduce, ncclFloat, 100), {Sig(Kind::kAllReduce, ncclInt32, 100)}),
            Fate::kCompletes);
}

TEST(Mismatch, ReductionsToDifferentRootsWaitForEver) {
  EXPECT_EQ(FateOf(Sig(Kind::kReduce, ncclFloat, 100, 0), {Sig(Kind::kReduce, ncclFloat, 100, 1)}),
            Fate::kHangs);
}

TEST(Mismatch, KernelsMustHoldTheSame) {
  const Signature alone = Sig(Kind::kAllReduce, ncclFloat, 100);
  Signature first = alone, second = alone;
  first.share = {2, 0};
  second.share = {2, 1};
  EXPECT_EQ(FateOf(first, {first}), Fate::kCompletes);
  EXPECT_EQ(FateOf(first, {alone}), Fate::kCompletes);  // small: one channel, the first
  EXPECT_EQ(FateOf(alone, {alone, second}), Fate::kHangs);
  Signature large_first = first, large_alone = alone;
  large_first.count = large_alone.count = kSmallBelowBytes;
  EXPECT_EQ(FateOf(large_first, {large_alone}), Fate::kHangs);
  EXPECT_EQ(FateOf(first, {second}), Fate::kHangs);
  // What is carried out as sends and receives has nothing to do with it.
  Signature exchange = Sig(Kind::kAlltoAll, ncclFloat, 100), other = exchange;
  other.share = {3, 1};
  EXPECT_EQ(FateOf(exchange, {other}), Fate::kCompletes);
}

TEST(Mismatch, RootOfRootlessKindsDoesNotMatter) {
  EXPECT_EQ(
      FateOf(Sig(Kind::kAllReduce, ncclFloat, 100, 0), {Sig(Kind::kAllReduce, ncclFloat, 100, 1)}),
      Fate::kCompletes);
}

}  // namespace
}  // namespace gordian::emu::nccl
