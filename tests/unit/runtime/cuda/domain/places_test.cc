#include "runtime/cuda/domain/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace gordian::runtime::cuda {
namespace {

constexpr uint32_t kTotal = 256;
constexpr uint32_t kWorker = 8;  // places of the resident worker

// Nothing that was granted is done.
struct Busy {
  explicit Busy(uint32_t total = kTotal) : places(total) {}
  Places<int> places;
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

// Two kernels that want nearly all between them: the second one's blocks have two channels each,
// not three.
TEST(PlacesTest, ASecondStreamsBlocksHaveAsManyChannelsEach) {
  Busy busy;
  EXPECT_EQ(busy.Grant(0, 124), 124u);
  EXPECT_EQ(busy.Grant(1, 124), 62u);
  EXPECT_EQ(busy.Grant(2, 124), 25u);  // of 54 that are left; 27 would not end sooner
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

// A device whose multiprocessors have four quarters, each with registers of its own for its warps.
// A block goes where most is free, as devices spread them.
class Device {
 public:
  explicit Device(uint32_t multiprocessors)
      : quarters_(multiprocessors, {kOfQuarter, kOfQuarter, kOfQuarter, kOfQuarter}) {}

  bool Place(uint32_t warps, uint32_t registers) {
    auto best = quarters_.end();
    for (auto sm = quarters_.begin(); sm != quarters_.end(); ++sm) {
      if (Fits(*sm, warps, registers) && (best == quarters_.end() || Free(*sm) > Free(*best)))
        best = sm;
    }
    if (best == quarters_.end()) return false;
    Take(&*best, warps, registers);
    return true;
  }

 private:
  using Quarters = std::array<uint32_t, 4>;  // registers that are free
  static constexpr uint32_t kOfQuarter = 16384;
  static uint32_t Free(const Quarters& sm) { return std::accumulate(sm.begin(), sm.end(), 0u); }
  static bool Take(Quarters* sm, uint32_t warps, uint32_t registers) {
    for (uint32_t i = 0; i < warps; ++i) {
      const auto most = std::max_element(sm->begin(), sm->end());
      if (*most < registers * 32) return false;
      *most -= registers * 32;
    }
    return true;
  }
  static bool Fits(Quarters sm, uint32_t warps, uint32_t registers) {
    return Take(&sm, warps, registers);
  }
  std::vector<Quarters> quarters_;
};

struct Counted {
  uint32_t multiprocessors = 132;
  uint32_t assumed = 132;  // of them
  int streams = 20;
  // As it is; else each counts by its threads, and blocks by LL128 have ten warps of 96 registers,
  // as it was.
  bool by_block = true;
};

// Kernels of many streams that all wait, beside the worker's: whether all their blocks are there.
bool AllAreThere(uint64_t seed, const Counted& counted) {
  std::mt19937_64 random(seed);
  const bool by_block = counted.by_block;
  Busy busy(PlacesOf(counted.assumed) - kWorker);
  Device device(counted.multiprocessors);
  for (uint32_t i = 0; i < kWorker; ++i) {
    if (!device.Place(16, 64)) return false;
  }
  for (int stream = 0; stream < counted.streams; ++stream) {
    const bool tiles = random() % 2 == 0, bulk = random() % 2 == 0;
    const uint32_t most_warps = tiles ? (by_block ? 8 : 10) : 16;
    const uint32_t registers = tiles ? (by_block ? 128 : 96) : 64;
    const auto warps = static_cast<uint32_t>(bulk ? most_warps : 1 + random() % most_warps);
    const auto channels = static_cast<uint32_t>(1 + random() % 128);
    uint32_t blocks = 0;
    if (by_block) {
      blocks = std::min(busy.Grant(stream, channels), channels);
    } else {
      const uint32_t wanted = (channels * warps + most_warps - 1) / most_warps;
      blocks = std::min(std::max(busy.Grant(stream, wanted) * most_warps / warps, 1u), channels);
    }
    for (uint32_t i = 0; i < blocks; ++i) {
      if (!device.Place(warps, registers)) return false;
    }
  }
  return true;
}

int OutOf200(const Counted& counted) {
  int fit = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) fit += AllAreThere(seed, counted) ? 1 : 0;
  return fit;
}

TEST(PlacesTest, WhatIsGrantedFitsTheDeviceWhateverTheBlocksAre) {
  EXPECT_EQ(OutOf200({}), 200);
  // On the smallest the first may take all but what is kept back, which is for 16 streams more.
  for (const uint32_t multiprocessors : {40u, 66u, 78u, 114u, 132u, 148u}) {
    EXPECT_EQ(
        OutOf200({.multiprocessors = multiprocessors, .assumed = multiprocessors, .streams = 17}),
        200)
        << multiprocessors;
  }
}

TEST(PlacesTest, CountedByThreadsItDoesNotFit) { EXPECT_LT(OutOf200({.by_block = false}), 150); }

TEST(PlacesTest, CountedForALargerDeviceItDoesNotFit) {
  EXPECT_LT(OutOf200({.multiprocessors = 114}), 150);
  EXPECT_LT(OutOf200({.multiprocessors = 78}), 10);
}

}  // namespace
}  // namespace gordian::runtime::cuda
