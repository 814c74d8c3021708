// Every kind of operation, with every type and operator, bit by bit against the serial reference.
#include <gtest/gtest.h>

#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

constexpr grtKind_t kMoving[] = {grtKindAllGather, grtKindBroadcast, grtKindAllToAll,
                                 grtKindGather,    grtKindScatter,   grtKindSend};
constexpr grtKind_t kReducing[] = {grtKindAllReduce, grtKindReduceScatter, grtKindReduce};

class Operations : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Operations, ::testing::Range(1, 9));

TEST_P(Operations, EveryReductionOfEveryTypeAndOperator) {
  const int n = GetParam();
  World world(n);
  uint32_t seed = static_cast<uint32_t>(n);
  for (const grtKind_t kind : kReducing) {
    for (int type = grtInt8; type <= grtFloat8e5m2; ++type) {
      for (int op = grtSum; op <= grtPreMulSum; ++op) {
        const Case c{kind, static_cast<grtDataType_t>(type), static_cast<grtRedOp_t>(op),
                     7,    static_cast<int>(seed % n),       seed % 2 == 0};
        ASSERT_TRUE(RunCase(world, c, ++seed));
      }
    }
  }
}

TEST_P(Operations, EveryKindOfEveryCount) {
  const int n = GetParam();
  World world(n);
  uint32_t seed = 1000 + static_cast<uint32_t>(n);
  std::vector<grtKind_t> kinds(std::begin(kMoving), std::end(kMoving));
  kinds.insert(kinds.end(), std::begin(kReducing), std::end(kReducing));
  for (const grtKind_t kind : kinds) {
    for (const size_t count : {0, 1, 3, 1025}) {
      for (const bool in_place : {false, true}) {
        if (kind == grtKindSend && in_place) continue;
        const Case c{kind,
                     count % 2 == 0 ? grtUint8 : grtFloat32,
                     grtSum,
                     count,
                     static_cast<int>(seed % n),
                     in_place};
        ASSERT_TRUE(RunCase(world, c, ++seed));
      }
    }
  }
}

// Many chunks: all ways that data takes, read in place and staged, in one channel and in several.
TEST_P(Operations, LargeOnes) {
  const int n = GetParam();
  for (const uint32_t channels : {1u, 3u}) {
    grtConfig_t config = GRT_CONFIG_INITIALIZER;
    config.channels = channels;
    config.chunk_bytes = 4096;
    World world(n, &config);
    uint32_t seed = 2000 + static_cast<uint32_t>(n);
    std::vector<grtKind_t> kinds(std::begin(kMoving), std::end(kMoving));
    kinds.insert(kinds.end(), std::begin(kReducing), std::end(kReducing));
    for (const grtKind_t kind : kinds) {
      const bool in_place = kind != grtKindSend && seed % 2 == 0;
      const Case c{kind, grtFloat32, grtSum, 12345, static_cast<int>(seed % n), in_place};
      ASSERT_TRUE(RunCase(world, c, ++seed));
      ASSERT_TRUE(RunCase(
          world, {kind, grtBfloat16, grtMax, 5001, 0, !in_place && kind != grtKindSend}, ++seed));
    }
  }
}

}  // namespace
}  // namespace gordian::runtime::testing
