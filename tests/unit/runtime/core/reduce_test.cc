// The reduction's loops against elements.h's plain ones. What the operations_test leaves out: every
// code of the 16-bit floats, and floats next to each bound at which their rounding changes.
#include "runtime/core/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace gordian::runtime {
namespace {

class SixteenBits : public ::testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, SixteenBits,
                         ::testing::Values(DataType::kHalf, DataType::kBfloat16));

bool IsNan(DataType type, uint16_t code) {
  return (code & 0x7fff) > (type == DataType::kHalf ? 0x7c00 : 0x7f80);
}

// Combine rounds after each operation, so for two contributions it must give the same. Of two NaNs
// either may give the sign.
void ExpectAsCombined(DataType type, Operator op, const std::vector<uint16_t>& a,
                      const std::vector<uint16_t>& b) {
  std::vector<uint16_t> expected = a, out(a.size());
  Combine(type, op, expected.data(), b.data(), a.size());
  const Contribution in[] = {{a.data(), 0}, {b.data(), 0}};
  Reduce(type, op, in, 2, a.size(), out.data());
  for (size_t i = 0; i < a.size(); ++i) {
    const uint16_t mask = IsNan(type, a[i]) && IsNan(type, b[i]) ? 0x7fff : 0xffff;
    ASSERT_EQ(out[i] & mask, expected[i] & mask)
        << std::hex << a[i] << " and " << b[i] << ", operator " << static_cast<int>(op);
  }
}

TEST_P(SixteenBits, EveryCodeWithManyOthers) {
  std::vector<uint16_t> all(1 << 16), other(1 << 16);
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    // Near each other in size, so that sums round and cancel; or anything.
    for (uint32_t i = 0; i < other.size(); ++i) {
      other[i] = static_cast<uint16_t>(
          round % 2 == 0 ? random() : (i + random() % 64 - 32) ^ (random() % 2 << 15));
    }
    for (const Operator op : {Operator::kSum, Operator::kProduct, Operator::kMax, Operator::kMin}) {
      ASSERT_NO_FATAL_FAILURE(ExpectAsCombined(GetParam(), op, all, other));
    }
  }
}

// One contribution comes out as it was, but for the payload of a NaN.
TEST_P(SixteenBits, OneContribution) {
  std::vector<uint16_t> all(1 << 16), expected(1 << 16);
  for (uint32_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<uint16_t>(i);
    expected[i] = GetParam() == DataType::kHalf ? Half::Encode(Half::Decode(all[i]))
                                                : Bfloat16::Encode(Bfloat16::Decode(all[i]));
  }
  const Contribution in[] = {{all.data(), 0}};
  Reduce(GetParam(), Operator::kSum, in, 1, all.size(), all.data());  // in place
  EXPECT_EQ(all, expected);
}

// PreMulSum is a product and a sum of floats, each rounded: a fused instruction would give other
// bits.
TEST(Float, ProductsAreRoundedBeforeTheyAreAdded) {
  std::mt19937 random(2);
  constexpr size_t kCount = 5000;
  std::vector<float> x[3], out(kCount);
  float scalars[3];
  Contribution in[3];
  for (int k = 0; k < 3; ++k) {
    for (size_t i = 0; i < kCount; ++i)
      x[k].push_back(std::uniform_real_distribution<float>(-1, 1)(random));
    scalars[k] = 1.0f / static_cast<float>(3 + k);
    in[k] = {x[k].data(), std::bit_cast<uint32_t>(scalars[k])};
  }
  Reduce(DataType::kFloat, Operator::kPreMulSum, in, 3, kCount, out.data());
  for (size_t i = 0; i < kCount; ++i) {
    volatile float sum = x[0][i] * scalars[0];
    for (int k = 1; k < 3; ++k) {
      volatile float product = x[k][i] * scalars[k];
      sum = sum + product;
    }
    ASSERT_EQ(out[i], sum) << i;
  }
}

// Any address, any of the inputs as output.
TEST(Float, UnalignedAndInPlace) {
  for (const size_t count : {1, 3, 17, 1023, 1024, 1025, 3000}) {
    for (uint32_t n = 1; n <= 5; ++n) {
      for (uint32_t place = 0; place < n; ++place) {
        std::vector<std::vector<unsigned char>> bytes(n);
        std::vector<Contribution> in(n);
        std::vector<float> expected(count);
        std::mt19937 random(n);
        for (uint32_t k = 0; k < n; ++k) {
          bytes[k].resize(count * 4 + 3);
          for (size_t i = 0; i < count; ++i) {
            const auto value = static_cast<float>(random()) * 0.37f;
            std::memcpy(bytes[k].data() + 1 + 4 * i, &value, 4);
            expected[i] = k == 0 ? value : expected[i] + value;
          }
          in[k] = {bytes[k].data() + 1, 0};
        }
        Reduce(DataType::kFloat, Operator::kSum, in.data(), n, count, bytes[place].data() + 1);
        EXPECT_EQ(std::memcmp(bytes[place].data() + 1, expected.data(), count * 4), 0)
            << count << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace gordian::runtime
