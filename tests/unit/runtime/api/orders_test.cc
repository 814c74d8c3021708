// Operations in any order on any rank. GORDIAN_TEST_ORDERS: how many random orders (10), and
// GORDIAN_TEST_FIRST_ORDER: from which on. Workers sleep until they are rung, so that a lost ring
// is a hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

constexpr int kPorts = 64;

int Orders() {
  const char* given = std::getenv("GORDIAN_TEST_ORDERS");
  return given != nullptr ? std::atoi(given) : 10;
}

uint32_t FirstOrder() {
  const char* given = std::getenv("GORDIAN_TEST_FIRST_ORDER");
  return given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : 0;
}

class UnboundedSleeps : public ::testing::Environment {
 public:
  void SetUp() override { Engine::SetLongestSleep(kForever); }
};
const ::testing::Environment* const unbounded_sleeps =
    ::testing::AddGlobalTestEnvironment(new UnboundedSleeps);

// Each rank calls the 64 operations in its own order, on one stream and strict, or detached.
void RandomOrders(int ranks, bool detached, int policy, uint32_t seed, int orders) {
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.policy = policy;
  config.spin_head = 64;
  config.chunk_bytes = 16 << 10;  // 64 ports of 8 ranks
  World world(ranks, &config);
  std::vector<std::vector<grtPort_t>> ports(ranks, std::vector<grtPort_t>(kPorts));
  for (int r = 0; r < ranks; ++r) {
    for (int p = 0; p < kPorts; ++p) {
      ASSERT_EQ(grtPortOpen(world[r].comm, static_cast<uint32_t>(p + 1), nullptr, &ports[r][p]),
                grtSuccess);
    }
  }
  for (int order = 0; order < orders; ++order) {
    std::mt19937 random(seed + static_cast<uint32_t>(order));
    std::vector<Case> cases;
    std::vector<std::vector<Bytes>> inputs(kPorts), outputs(kPorts);
    std::vector<std::vector<int>> sequence(ranks, std::vector<int>(kPorts));
    constexpr grtKind_t kKinds[] = {grtKindAllReduce, grtKindAllGather, grtKindReduceScatter,
                                    grtKindBroadcast};
    for (int p = 0; p < kPorts; ++p) {
      Case c{kKinds[random() % 4],
             grtInt32,
             grtSum,
             1 + random() % 64,
             static_cast<int>(random() % ranks),
             false};
      if (random() % 32 == 0) c.count = 20000 + random() % 20000;
      cases.push_back(c);
      outputs[p].resize(ranks);
      for (int r = 0; r < ranks; ++r) {
        inputs[p].push_back(RandomElements(c.type, InputElements(c, ranks, r), random));
        outputs[p][r].resize(OutputElements(c, ranks, r) * 4);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      std::iota(sequence[r].begin(), sequence[r].end(), 0);
      std::shuffle(sequence[r].begin(), sequence[r].end(), random);
    }
    std::vector<int> ended(ranks, grtSuccess);
    OnRanks(ranks, [&](int r) {
      std::vector<grtOp_t> handles;
      for (const int p : sequence[r]) {
        grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
        d.kind = cases[p].kind;
        d.in = inputs[p][r].data();
        d.out = outputs[p][r].data();
        d.count = cases[p].count;
        d.type = cases[p].type;
        d.root_or_peer = cases[p].root;
        d.comm = world[r].comm;
        d.port = ports[r][p];
        d.order = detached ? grtOrderDetached : grtOrderStrict;
        grtOp_t handle = nullptr;
        ended[r] |= grtSubmit(&d, detached ? nullptr : world[r].stream, &handle);
        handles.push_back(handle);
      }
      // Who waits without a deadline carries the stream itself.
      if (!detached && order % 2 != 0)
        ended[r] |= grtStreamSynchronize(world[r].stream, UINT64_MAX);
      for (const grtOp_t handle : handles) {
        if (handle == nullptr) continue;
        ended[r] |= grtOpWait(handle, kPatienceNs);
        grtOpFree(handle);
      }
      if (!detached) ended[r] |= grtStreamSynchronize(world[r].stream, kPatienceNs);
    });
    for (int r = 0; r < ranks; ++r) ASSERT_EQ(ended[r], grtSuccess) << "seed " << seed + order;
    for (int p = 0; p < kPorts; ++p) {
      const std::vector<Bytes> expected = Expected(cases[p], inputs[p], {});
      for (int r = 0; r < ranks; ++r) {
        ASSERT_EQ(outputs[p][r] == expected[r], true)
            << Name(cases[p], ranks) << ", port " << p << ", seed " << seed + order;
      }
    }
  }
}

TEST(Orders, OneStreamStrict) { RandomOrders(8, false, 0, 1 + FirstOrder(), Orders()); }
TEST(Orders, Detached) { RandomOrders(8, true, 0, 100000 + FirstOrder(), Orders()); }
TEST(Orders, SpinThreshold) {
  RandomOrders(4, false, 1, 200000 + FirstOrder(), std::min(Orders(), 10));
}

struct Pair {
  grtUniqueId a, b;
  Pair() {
    EXPECT_EQ(grtGetUniqueId(&a), grtSuccess);
    EXPECT_EQ(grtGetUniqueId(&b), grtSuccess);
  }
};

// Two communicators in opposite order with something in between; the twin has one order.
class Between : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Twins, Between, ::testing::Bool());

// What B reads is what A writes, and the other way round on the other rank: no order can help.
TEST_P(Between, DataThatNeedsTheOrderIsNotReordered) {
  const bool opposite = GetParam();
  std::vector<int32_t> x(4096, 1), y(4096, 0), z(4096, 0);
  std::vector<std::vector<int32_t>> ys(2, y), zs(2, z);
  World first(2),
      second(2);  // after the buffers: an abort waits for nobody, the end of the streams does
  grtResult_t ended[2];
  OnRanks(2, [&](int r) {
    const auto op = [&](World& world, const int32_t* in, int32_t* out) {
      EXPECT_EQ(grtAllReduce(in, out, 4096, grtInt32, grtSum, world[r].comm, first[r].stream),
                grtSuccess);
    };
    World& one = opposite && r == 1 ? second : first;
    World& two = opposite && r == 1 ? first : second;
    op(one, x.data(), ys[r].data());
    op(two, ys[r].data(), zs[r].data());
    ended[r] = grtStreamSynchronize(first[r].stream, opposite ? 200'000'000 : kPatienceNs);
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ended[r], opposite ? grtTimeout : grtSuccess);
    if (!opposite) {
      EXPECT_EQ(zs[r][4095], 4);
    }
  }
  if (!opposite) return;
  for (int r = 0; r < 2; ++r) {
    for (World* world : {&first, &second}) {
      EXPECT_EQ(grtCommAbort((*world)[r].comm), grtSuccess);
      (*world)[r].comm = nullptr;
    }
  }
}

// Both write one buffer: the later one is executed early, and written when its turn comes.
TEST_P(Between, OneOutputForBothIsRenamed) {
  const bool opposite = GetParam();
  World first(2), second(2);
  std::vector<std::vector<int32_t>> out(2, std::vector<int32_t>(5000));
  const std::vector<int32_t> ones(5000, 1), tens(5000, 10);
  OnRanks(2, [&](int r) {
    const auto op = [&](bool b) {
      EXPECT_EQ(grtAllReduce(b ? tens.data() : ones.data(), out[r].data(), 5000, grtInt32, grtSum,
                             (b ? second : first)[r].comm, first[r].stream),
                grtSuccess);
    };
    const bool reverse = opposite && r == 1;
    op(reverse);
    op(!reverse);
    EXPECT_EQ(grtStreamSynchronize(first[r].stream, kPatienceNs), grtSuccess);
    EXPECT_EQ(out[r], std::vector<int32_t>(5000, reverse ? 2 : 20));
  });
}

void Sleeper(void* gate) {
  while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::yield();
}

// User work between the two: B does not begin before it is done.
TEST_P(Between, UserWorkIsNotPassed) {
  const bool opposite = GetParam();
  std::vector<int32_t> x(64, 1);
  std::vector<std::vector<int32_t>> a(2, std::vector<int32_t>(64)), b(2, std::vector<int32_t>(64));
  std::atomic<bool> gate{true};
  World first(2), second(2);
  grtResult_t ended[2];
  OnRanks(2, [&](int r) {
    const bool reverse = opposite && r == 1;
    const auto op = [&](bool other) {
      EXPECT_EQ(grtAllReduce(x.data(), (other ? b : a)[r].data(), 64, grtInt32, grtSum,
                             (other ? second : first)[r].comm, first[r].stream),
                grtSuccess);
    };
    op(reverse);
    EXPECT_EQ(grtStreamLaunch(first[r].stream, Sleeper, &gate), grtSuccess);
    op(!reverse);
    ended[r] = grtStreamSynchronize(first[r].stream, opposite ? 200'000'000 : kPatienceNs);
  });
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ended[r], opposite ? grtTimeout : grtSuccess);
  if (!opposite) return;
  for (int r = 0; r < 2; ++r) {
    for (World* world : {&first, &second}) {
      EXPECT_EQ(grtCommAbort((*world)[r].comm), grtSuccess);
      (*world)[r].comm = nullptr;
    }
  }
}

// Deferred operations in opposite orders complete; what joins them waits for both.
TEST(Deferred, CompleteInAnyOrderUntilJoined) {
  World first(2), second(2);
  std::vector<int32_t> x(64, 1);
  OnRanks(2, [&](int r) {
    std::vector<int32_t> a(64), b(64), sum(64);
    const auto op = [&](World& world, int32_t* out) {
      grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
      d.in = x.data();
      d.out = out;
      d.count = 64;
      d.type = grtInt32;
      d.order = grtOrderDeferred;
      d.comm = world[r].comm;
      EXPECT_EQ(grtSubmit(&d, first[r].stream, nullptr), grtSuccess);
    };
    if (r == 0) op(first, a.data()), op(second, b.data());
    if (r == 1) op(second, b.data()), op(first, a.data());
    EXPECT_EQ(grtStreamJoin(first[r].stream), grtSuccess);
    struct Sum {
      std::vector<int32_t>&a, &b, &out;
    } state{a, b, sum};
    EXPECT_EQ(grtStreamLaunch(
                  first[r].stream,
                  [](void* user) {
                    auto* s = static_cast<Sum*>(user);
                    for (size_t i = 0; i < s->out.size(); ++i) s->out[i] = s->a[i] + s->b[i];
                  },
                  &state),
              grtSuccess);
    EXPECT_EQ(grtStreamSynchronize(first[r].stream, kPatienceNs), grtSuccess);
    EXPECT_EQ(sum, std::vector<int32_t>(64, 4));
  });
}

}  // namespace
}  // namespace gordian::runtime::testing
