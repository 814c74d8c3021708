// First fit against a twin that marks each piece of the pool by itself.
#include "interpose/route/shadow_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace gordian::interpose {
namespace {

constexpr uint64_t kPiece = ShadowPool::kAlign;

// Pieces of kPiece bytes, each free or taken.
class Twin {
 public:
  explicit Twin(uint64_t bytes) : bytes_(bytes), taken_((bytes + kPiece - 1) / kPiece, false) {}

  bool Take(uint64_t bytes, uint64_t* at) {
    const size_t pieces = (bytes + kPiece - 1) / kPiece;
    for (size_t first = 0; bytes != 0 && first * kPiece + bytes <= bytes_; ++first) {
      bool free = true;
      for (size_t i = first; i < first + pieces; ++i) free = free && !taken_[i];
      if (!free) continue;
      for (size_t i = first; i < first + pieces; ++i) taken_[i] = true;
      *at = first * kPiece;
      length_[*at] = pieces;
      return true;
    }
    return false;
  }
  void Give(uint64_t at) {
    for (size_t i = 0; i < length_.at(at); ++i) taken_[at / kPiece + i] = false;
    length_.erase(at);
  }

 private:
  const uint64_t bytes_;
  std::vector<bool> taken_;
  std::map<uint64_t, size_t> length_;
};

TEST(ShadowPool, TakesWhatTheTwinTakes) {
  const auto pool = std::make_unique<ShadowPool>();
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint64_t n) {
      return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
    };
    const uint64_t bytes = 1 + below(64 * kPiece);
    pool->Reset(bytes);
    Twin twin(bytes);
    std::map<uint64_t, uint64_t> at_of;  // by holder
    uint64_t next = 0;
    for (int i = 0; i < 400; ++i) {
      const uint64_t wanted = below(20 * kPiece);
      uint64_t at = 0, expected = 0;
      const bool taken = pool->Take(wanted, &at);
      ASSERT_EQ(taken, twin.Take(wanted, &expected)) << "seed " << seed << ", step " << i;
      if (taken) {
        ASSERT_EQ(at, expected) << "seed " << seed << ", step " << i;
        at_of[next] = at;
        pool->Hold(at, next++);
      }
      std::set<uint64_t> asked;
      pool->Sweep(static_cast<uint32_t>(below(4)), [&](uint64_t holder) {
        EXPECT_TRUE(asked.insert(holder).second) << "asked twice in one sweep";
        if (below(2) == 0) return false;
        twin.Give(at_of.at(holder));
        at_of.erase(holder);
        return true;
      });
      ASSERT_EQ(pool->ranges(), at_of.size());
    }
  }
}

TEST(ShadowPool, KeepsWhatNobodyHolds) {
  const auto pool = std::make_unique<ShadowPool>();
  pool->Reset(4 * kPiece);
  uint64_t first = 0, second = 0, third = 0;
  ASSERT_TRUE(pool->Take(2 * kPiece, &first));
  ASSERT_TRUE(pool->Take(2 * kPiece, &second));
  pool->Hold(second, 7);
  pool->Sweep(100, [](uint64_t holder) {
    EXPECT_EQ(holder, 7u);
    return true;
  });
  EXPECT_FALSE(pool->Take(3 * kPiece, &third));
  ASSERT_TRUE(pool->Take(2 * kPiece, &third));
  EXPECT_EQ(third, second);
}

TEST(ShadowPool, HasSoManyRangesAndNoMore) {
  const auto pool = std::make_unique<ShadowPool>();
  pool->Reset(uint64_t{1} << 40);
  uint64_t at = 0;
  for (uint32_t i = 0; i < ShadowPool::kMostRanges; ++i) {
    ASSERT_TRUE(pool->Take(1, &at));
    pool->Hold(at, i);
  }
  EXPECT_FALSE(pool->Take(1, &at));
  pool->Sweep(1, [](uint64_t) { return true; });
  EXPECT_TRUE(pool->Take(1, &at));
}

}  // namespace
}  // namespace gordian::interpose
