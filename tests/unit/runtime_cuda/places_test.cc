#include "runtime/cuda/places.h"

#include <gtest/gtest.h>

#include <map>

namespace gordian::runtime::cuda {
namespace {

constexpr uint32_t kTotal = 256;

// Nothing that was granted is done.
struct Busy {
  Places<int> places{kTotal};
  std::map<int, uint32_t> taken;
  int looks = 0;

  uint32_t Grant(int stream, uint32_t wanted) {
    const uint32_t granted = places.Grant(stream, wanted, [this](const auto& note) {
      ++looks;
      for (const auto& [of, count] : taken) note(of, count);
    });
    taken[stream] = std::max(taken[stream], granted);
    return granted;
  }
  uint32_t Sum() const {
    uint32_t sum = 0;
    for (const auto& [of, count] : taken) sum += count;
    return sum;
  }
};

TEST(PlacesTest, AFewStreamsGetAllTheyWant) {
  Busy busy;
  for (int stream = 0; stream < 3; ++stream) EXPECT_EQ(busy.Grant(stream, 64), 64u);
  EXPECT_EQ(busy.looks, 0);
}

TEST(PlacesTest, KernelsOfOneStreamDoNotAddUp) {
  Busy busy;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(busy.Grant(1, 64), 64u);
  EXPECT_EQ(busy.looks, 0);
}

// All of them fit, however many streams wait at once.
TEST(PlacesTest, StreamsThatAllWaitFit) {
  for (const uint32_t wanted : {2u, 16u, 64u, 128u, 256u}) {
    Busy busy;
    for (int stream = 0; stream < 24; ++stream) {
      const uint32_t granted = busy.Grant(stream, wanted);
      EXPECT_GE(granted, 1u);
      EXPECT_LE(granted, wanted);
    }
    EXPECT_LE(busy.Sum(), kTotal) << wanted;
  }
}

TEST(PlacesTest, WhatIsDoneIsFreeAgain) {
  Busy busy;
  for (int stream = 0; stream < 8; ++stream) busy.Grant(stream, 64);
  EXPECT_LT(busy.Grant(8, 64), 64u);
  busy.taken.clear();
  EXPECT_EQ(busy.Grant(9, 64), 64u);
}

}  // namespace
}  // namespace gordian::runtime::cuda
