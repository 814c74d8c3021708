// The CUDA backend's protocols on the host: every kind, type and operator against a reference, by
// each way of carrying.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/runtime/cuda/host_cases.h"
#include "tests/unit/runtime/cuda/host_world.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {
namespace {

// All operations of `cases`, on all ranks, in this order.
void RunCases(uint32_t ranks, const std::vector<Case>& cases, int way, bool direct) {
  HostHeaps::Options options;
  options.ranks = ranks;
  options.line_channels = 4;
  options.lines_per_lane = 512;
  options.tiles_per_lane = 1;  // of a phase: operations in one phase have both phases' lanes
  options.user_bytes = direct ? 1 << 17 : 0;
  HostHeaps heaps(options);
  std::vector<std::string> problems(ranks);
  Fibers fibers(ranks);
  bool finished = true;
  HostList lists[kMaxRanks];
  for (uint32_t r = 0; r < ranks; ++r) {
    fibers.Add([&, r] {
      HostList& list = lists[r];
      for (const Case& c : cases) {
        Case mine = c;
        OpKind kind = c.kind;
        uint32_t peer = c.root;
        if (kind == OpKind::kSend) {  // root to the next rank
          const uint32_t to = (c.root + 1) % ranks;
          if (r != c.root && r != to) continue;
          mine.kind = kind = r == to ? OpKind::kRecv : OpKind::kSend;
          peer = r == to ? c.root : to;
        }
        Buffers b = Fill(mine, ranks, r, direct ? heaps.User(r) : nullptr);
        if (mine.kind == OpKind::kRecv) b.out_elements = c.count;
        if (mine.kind == OpKind::kSend) b.out_elements = 0;
        // Who has no input or output passes none, as programs do.
        if (!HasInput(mine.kind, static_cast<int32_t>(c.root), r)) b.in_at = nullptr;
        if (!HasOutput(mine.kind, static_cast<int32_t>(c.root), r)) b.out_at = nullptr;
        // Peers write into the user memory of this rank: not before it has filled it.
        Work w = heaps.Make(r, 0, kind, c.type, c.op, b.in_at, b.out_at, c.count, peer, Way(way));
        char scalar[8] = {};
        Encode(c.type, Scalar(r), scalar);
        std::memcpy(&w.scalar, scalar, sizeof scalar);
        RunOnHost(w, list.Alone(), &fibers);
        if (!finished) return;
        if (const uint64_t wrong = Wrong(mine, ranks, r, b); wrong > 0) {
          problems[r] += c.Name() + ": " + std::to_string(wrong) + " wrong\n";
        }
        if (heaps.Failed(r) != kNoFailure) problems[r] += c.Name() + ": failed\n";
      }
    });
  }
  fibers.OnHang([&] {
    finished = false;
    for (HostList& list : lists) list.Stop();
  });
  EXPECT_TRUE(fibers.Run(kForEver)) << ranks << " ranks, way " << way;
  for (uint32_t r = 0; r < ranks; ++r) {
    EXPECT_EQ(problems[r], "") << "rank " << r << " of " << ranks << ", way " << way
                               << (direct ? ", direct" : "");
  }
}

std::vector<Case> Kinds(uint32_t ranks) {
  std::vector<Case> cases;
  // The largest: chunks of a channel by bulk that are many more than its slots.
  for (const uint64_t count : {1, 3, 64, 257, 1000, 5003}) {
    if (count > 1000 && ranks > 4) continue;
    for (const OpKind kind : kAll) {
      if (kind == OpKind::kSend && ranks == 1) continue;
      Case c;
      c.kind = kind;
      c.count = ranks > 4 && count > 500 ? 130 : count;
      c.root = static_cast<uint32_t>(count % ranks);
      cases.push_back(c);
      c.misaligned = 4;
      cases.push_back(c);
      c.misaligned = 0;
      if (kind == OpKind::kAllToAll || kind == OpKind::kSend) continue;
      c.in_place = true;
      cases.push_back(c);
    }
  }
  return cases;
}

// Those that are through with an operation that one member does not begin, as a mask. Bulk, of less
// than staging holds.
uint32_t ThroughWithout(OpKind kind, uint32_t ranks, uint32_t missing, uint32_t root, bool offers,
                        bool* is_offered) {
  HostHeaps::Options options;
  options.ranks = ranks;
  options.user_bytes = offers ? 1 << 16 : 0;
  HostHeaps heaps(options);
  Fibers fibers(ranks);
  HostList lists[kMaxRanks];
  bool goes_on = true;
  uint32_t through = 0;
  for (uint32_t r = 0; r < ranks; ++r) {
    if (r == missing) continue;
    fibers.Add([&, r] {
      Case c;
      c.kind = kind;
      c.count = 500;
      c.root = root;
      const Buffers b = Fill(c, ranks, r, offers ? heaps.User(r) : nullptr);
      const Work w = heaps.Make(r, 0, kind, c.type, c.op, b.in_at, b.out_at, c.count, root, Way(2));
      EXPECT_NE(w.flags & kBulk, 0);
      *is_offered = (w.flags & kOffers) != 0;
      RunOnHost(w, lists[r].Alone(), &fibers);
      if (goes_on) through |= 1u << r;
    });
  }
  fibers.OnHang([&] {
    goes_on = false;
    for (HostList& list : lists) list.Stop();
  });
  fibers.Run(kForEver / 10);
  return through;
}

// The kinds of which memory that is registered later may be offered: whoever would have been
// through without the one that is missing still is; but for a broadcast's root, that is nobody. Of
// the others somebody is, and would not be if he waited for offers.
TEST(PlanTest, OffersMakeNobodyWaitWhereThatIsSaid) {
  for (const uint32_t ranks : {2, 3, 4}) {
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kAllToAll, OpKind::kReduce,
          OpKind::kBroadcast, OpKind::kScatter, OpKind::kGather}) {
      bool some_are_through = false, waiting_costs = false, is_offered = false;
      for (uint32_t missing = 0; missing < ranks; ++missing) {
        for (const uint32_t root : {0u, ranks - 1}) {
          const uint32_t without = ThroughWithout(kind, ranks, missing, root, false, &is_offered);
          const uint32_t with = ThroughWithout(kind, ranks, missing, root, true, &is_offered);
          some_are_through = some_are_through || without != 0;
          waiting_costs = waiting_costs || (without & ~with) != 0;
        }
      }
      if (OffersMakeNobodyWait(kind, ranks)) {
        EXPECT_EQ(is_offered && some_are_through, kind == OpKind::kBroadcast)
            << static_cast<int>(kind) << ", " << ranks << " ranks";
        EXPECT_FALSE(waiting_costs) << static_cast<int>(kind) << ", " << ranks << " ranks";
        EXPECT_TRUE(is_offered || (kind == OpKind::kReduce && ranks == 2))
            << static_cast<int>(kind);
      } else {
        EXPECT_TRUE(is_offered && waiting_costs)
            << static_cast<int>(kind) << ", " << ranks << " ranks";
      }
    }
  }
}

// As a communicator of that many ranks would have it, by default.
Work Planned(OpKind kind, uint32_t ranks, uint32_t rank, uint64_t bytes, uint32_t root,
             const Thresholds& thresholds) {
  Work w{};
  w.kind = kind;
  w.type = DataType::kInt8;
  w.ranks = static_cast<uint8_t>(ranks);
  w.rank = static_cast<uint8_t>(rank);
  w.port = LayOut(0, ranks, false, 128, 128, 2, 64 << 20);
  EXPECT_TRUE(PlanWork(&w, bytes, root, thresholds, true));
  return w;
}

// What all members compute on their own must agree, and the sizes at which it changes are what is
// measured.
TEST(PlanTest, WayIsChosenBySizeAlikeOnAllRanks) {
  const auto plan = [](OpKind kind, uint32_t ranks, uint32_t rank, uint64_t bytes) {
    return Planned(kind, ranks, rank, bytes, 0, Thresholds{});
  };
  constexpr uint32_t kWay = kBulk | kTiles | kTwoPhase;
  const Thresholds t;
  const auto way = [&](OpKind kind, uint32_t ranks, uint64_t bytes) {
    return plan(kind, ranks, 0, bytes).flags & kWay;
  };
  for (const uint32_t ranks : {2, 4, 8}) {
    const uint64_t others = ranks - 1;
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, 8), 0);
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, t.one_shot / others), 0);
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, t.two_shot_lines), kTwoPhase);
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, t.two_shot_lines + 1), kTiles | kTwoPhase);
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, t.two_shot_tiles), kTiles | kTwoPhase);
    EXPECT_EQ(way(OpKind::kAllReduce, ranks, t.two_shot_tiles + 1), kBulk | kTwoPhase);
    EXPECT_EQ(way(OpKind::kAllGather, ranks, t.move_lines / others), 0);
    EXPECT_EQ(way(OpKind::kAllGather, ranks, t.move_lines / others + 1), kTiles);
    const PortLayout port = plan(OpKind::kAllGather, ranks, 0, 8).port;
    const uint64_t room =
        uint64_t{port.tiles_per_lane} * port.phases * port.line_channels * kTileBytes;
    EXPECT_EQ(room >= t.move_tiles, ranks <= 4);
    EXPECT_EQ(way(OpKind::kAllGather, ranks, std::min(t.move_tiles, room)), kTiles);
    EXPECT_EQ(way(OpKind::kAllGather, ranks, std::min(t.move_tiles, room) + 1), kBulk);
  }
  EXPECT_EQ(way(OpKind::kBroadcast, 4, t.root_lines / 3), 0);
  EXPECT_EQ(way(OpKind::kBroadcast, 4, t.root_lines / 3 + 1), kTiles | kTwoPhase);
  EXPECT_EQ(way(OpKind::kReduce, 4, t.two_shot_tiles + 1), kBulk | kTwoPhase);
  EXPECT_EQ(way(OpKind::kReduce, 4, t.root_tiles / 3), kTiles);
  EXPECT_EQ(way(OpKind::kReduce, 4, t.root_tiles / 3 + 1), kTiles | kTwoPhase);
  EXPECT_EQ(plan(OpKind::kAllReduce, 2, 0, 8).channels, 1);
  EXPECT_EQ(plan(OpKind::kAllReduce, 2, 0, t.two_shot_tiles).channels, 128);
  EXPECT_EQ(plan(OpKind::kAllReduce, 2, 0, 64 << 20).channels, 128);
  for (const OpKind kind :
       {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather}) {
    for (const uint32_t ranks : {1, 2, 3, 5, 8}) {
      for (uint64_t bytes = 1; bytes < 1ull << 34; bytes = bytes * 3 + 1) {
        const Work first = plan(kind, ranks, 0, bytes);
        for (uint32_t rank = 1; rank < ranks; ++rank) {
          const Work w = plan(kind, ranks, rank, bytes);
          EXPECT_EQ(w.flags & (kWay | kOffers), first.flags & (kWay | kOffers));
          EXPECT_EQ(w.channels, first.channels);
          EXPECT_EQ(w.part, first.part);
          EXPECT_EQ(w.chunk, first.chunk);
        }
        EXPECT_GE(first.part * first.channels,
                  (first.flags & kBulk) != 0 ? first.block_bytes : UnitCount(first));
        if ((first.flags & kBulk) == 0) {
          const uint32_t phases = (first.flags & kTwoPhase) != 0 ? 1 : first.port.phases;
          EXPECT_LE(first.part, (first.flags & kTiles) != 0 ? first.port.tiles_per_lane * phases
                                                            : first.port.lines_per_lane);
        } else {
          EXPECT_LE(first.chunk, SlotBytes(first));
        }
      }
    }
  }
}

// Of a broadcast or a reduce in two phases: no link carries more than the message once, each way;
// and of a broadcast the root's carries nothing the other way.
TEST(PlanTest, ARootsLinkCarriesTheMessageOnce) {
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kReduce}) {
    for (uint32_t ranks = 3; ranks <= kMaxRanks; ++ranks) {
      for (const uint64_t bytes :
           {1ull, 16ull, 100ull, 4096ull, 1ull << 20, (4ull << 20) + 3, 300ull << 20}) {
        const uint32_t root = static_cast<uint32_t>(bytes % ranks);
        uint64_t out[kMaxRanks] = {}, in[kMaxRanks] = {}, shards = 0, before = 0;
        std::vector<std::pair<uint64_t, uint64_t>> places;
        for (uint32_t r = 0; r < ranks; ++r) {
          Thresholds t;
          t.root_lines = t.root_tiles = 0;
          const Work w = Planned(kind, ranks, r, bytes, root, t);
          ASSERT_NE(w.flags & kTwoPhase, 0);
          for (uint32_t p = 0; p < ranks; ++p) {
            const uint64_t first = (w.send1 >> p & 1) != 0 ? BlockBytes(w, p) : 0;
            const uint64_t second = (w.send2 >> p & 1) != 0 ? BlockBytes(w, r) : 0;
            out[r] += first + second;
            in[p] += first + second;
          }
          shards += BlockBytes(w, r);
          if (BlockBytes(w, r) != 0) places.emplace_back(OutAt(w, r), BlockBytes(w, r));
          EXPECT_EQ(InAt(w, r), OutAt(w, r));
          EXPECT_LE(BlockBytes(w, r), r == root ? 0 : w.block_bytes);
        }
        EXPECT_EQ(shards, bytes);
        std::sort(places.begin(), places.end());
        for (const auto& [at, size] : places) {
          EXPECT_EQ(at, before);  // one behind the other
          before += size;
        }
        const bool spreads = kind == OpKind::kBroadcast;
        EXPECT_EQ((spreads ? out : in)[root], bytes);
        EXPECT_EQ((spreads ? in : out)[root], spreads ? 0 : bytes);
        for (uint32_t r = 0; r < ranks; ++r) {
          EXPECT_LE(out[r], bytes + 16 * ranks);
          EXPECT_LE(in[r], bytes + 16 * ranks);
        }
      }
    }
  }
}

class ProtocolsTest : public testing::TestWithParam<int> {};

TEST(PlanTest, BothEndsOfATransferHaveItInOneRound) {
  for (uint32_t ranks = 2; ranks <= kMaxRanks; ++ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      uint32_t sends = 0, receives = 0;  // rounds that have one
      for (uint32_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        const uint32_t round =
            RoundOf(3 * kKeysOfCommunicator + KeyOfPair(peer, false), rank, ranks);
        EXPECT_EQ(round, RoundOf(KeyOfPair(rank, true), peer, ranks));
        sends |= 1u << round;
        receives |= 1u << RoundOf(KeyOfPair(peer, true), rank, ranks);
      }
      EXPECT_EQ(sends, (1u << ranks) - 2);
      EXPECT_EQ(receives, (1u << ranks) - 2);
    }
  }
}

TEST_P(ProtocolsTest, EveryKind) {
  for (const uint32_t ranks : {1, 2, 3, 4, 5, 8}) {
    RunCases(ranks, Kinds(ranks), GetParam(), false);
    RunCases(ranks, Kinds(ranks), GetParam(), true);
  }
}

TEST_P(ProtocolsTest, EveryTypeAndOperator) {
  for (const uint32_t ranks : {2, 3, 8}) {
    std::vector<Case> cases;
    for (int type = 0; type < kDataTypes; ++type) {
      for (int op = 0; op <= static_cast<int>(Operator::kPreMulSum); ++op) {
        for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
          Case c;
          c.kind = kind;
          c.type = static_cast<DataType>(type);
          c.op = static_cast<Operator>(op);
          c.count = 67;
          c.root = 1;
          cases.push_back(c);
        }
      }
    }
    RunCases(ranks, cases, GetParam(), false);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ProtocolsTest, testing::Range(0, kWays));

// One member calls another operation than the others.
enum class Slip {
  kNothing,
  kCount,
  kWay,
  kType,
  kOperator,
  kKind,
  kRoot,
  kBroadcastRoot,
  kBytesOfPair
};

struct Called {
  std::vector<uint32_t> failed;  // what each rank was told
  std::vector<bool> untouched;   // its output
  bool finished = true;          // all came to an end by themselves
};

// `wrong_rank` does it wrong; a right operation before it and one behind it.
Called RunMismatch(Slip wrong, uint32_t ranks, uint32_t wrong_rank, int way, bool direct) {
  HostHeaps::Options options;
  options.ranks = ranks;
  options.lines_per_lane = 512;
  options.user_bytes = direct ? 1 << 16 : 0;
  HostHeaps heaps(options);
  Called called;
  called.failed.assign(ranks, kNoFailure);
  called.untouched.assign(ranks, true);
  Fibers fibers(ranks);
  HostList lists[kMaxRanks];
  for (uint32_t r = 0; r < ranks; ++r) {
    fibers.Add([&, r] {
      const bool differs = r == wrong_rank;
      Case c;
      c.count = 300;
      int own_way = way;
      if (wrong == Slip::kRoot) c.kind = OpKind::kReduce;
      if (wrong == Slip::kBroadcastRoot) c.kind = OpKind::kBroadcast;
      if (wrong == Slip::kBytesOfPair) c.kind = differs ? OpKind::kSend : OpKind::kRecv;
      uint32_t peer = wrong == Slip::kBytesOfPair ? 1 - r : 0;
      if (differs && (wrong == Slip::kCount || wrong == Slip::kBytesOfPair)) c.count = 299;
      if (differs && wrong == Slip::kWay) {
        c.count = 700;  // as where the way of carrying changes with the size
        own_way = (way + 1) % kWays;
      }
      if (differs && wrong == Slip::kType) c.type = DataType::kInt32;
      if (differs && wrong == Slip::kOperator) c.op = Operator::kMax;
      if (differs && wrong == Slip::kKind) c.kind = OpKind::kAllGather;
      if (differs && (wrong == Slip::kRoot || wrong == Slip::kBroadcastRoot)) peer = 1;
      const Case right = {};
      for (int i = 0; i < 3; ++i) {
        Case one = right;
        one.count = 9;
        if (i == 1) one = c;
        Buffers b = Fill(one, ranks, r, direct ? heaps.User(r) + i * 16384 : nullptr);
        if (one.kind == OpKind::kSend || one.kind == OpKind::kRecv) b.in_at = b.in.data();
        std::memset(b.out_at, 77, OutputCount(one.kind, one.count, ranks) * 4);
        const Work w = heaps.Make(r, 0, one.kind, one.type, one.op, b.in_at, b.out_at, one.count,
                                  i == 1 ? peer : 0, Way(i == 1 ? own_way : 0));
        RunOnHost(w, lists[r].Alone(), &fibers);
        if (i != 1) continue;
        for (uint64_t at = 0; at < one.count * 4; ++at) {
          if (b.out_at[at] != 77) called.untouched[r] = false;
        }
      }
      called.failed[r] = heaps.Failed(r);
    });
  }
  fibers.OnHang([&] {
    called.finished = false;
    for (HostList& list : lists) list.Stop();
  });
  fibers.Run(kForEver);
  return called;
}

TEST_P(ProtocolsTest, AMismatchIsToldToAllBeforeAnyOutput) {
  for (const uint32_t ranks : {2, 3, 5}) {
    for (const bool direct : {false, true}) {
      for (const Slip wrong : {Slip::kNothing, Slip::kCount, Slip::kWay, Slip::kType,
                               Slip::kOperator, Slip::kKind, Slip::kRoot, Slip::kBytesOfPair}) {
        if (wrong == Slip::kBytesOfPair && ranks > 2) continue;
        for (uint32_t wrong_rank = 0; wrong_rank < ranks; ++wrong_rank) {
          if (wrong == Slip::kRoot && wrong_rank == 0)
            continue;  // all send, nobody receives: below
          const Called called = RunMismatch(wrong, ranks, wrong_rank, GetParam(), direct);
          const std::string name = "wrong " + std::to_string(static_cast<int>(wrong)) + ", rank " +
                                   std::to_string(wrong_rank) + " of " + std::to_string(ranks) +
                                   (direct ? ", direct" : "");
          EXPECT_TRUE(called.finished) << name;
          for (uint32_t r = 0; r < ranks; ++r) {
            const bool fine = wrong == Slip::kNothing;
            EXPECT_EQ(called.failed[r], fine ? kNoFailure : kFailedMismatch)
                << name << ", told to " << r;
            EXPECT_EQ(called.untouched[r], !fine) << name << ", output of " << r;
          }
        }
      }
    }
  }
}

// Members that only send wait for nobody: that they disagree is told by the next operation.
TEST_P(ProtocolsTest, WhatNobodyWaitsForIsToldByTheNextOperation) {
  for (const uint32_t ranks : {2, 3}) {
    for (const uint32_t wrong_rank : {0, 1}) {
      const Slip wrong = wrong_rank == 0 ? Slip::kRoot : Slip::kBroadcastRoot;
      const Called called = RunMismatch(wrong, ranks, wrong_rank, GetParam(), false);
      EXPECT_TRUE(called.finished);
      EXPECT_EQ(called.failed, std::vector<uint32_t>(ranks, kFailedMismatch))
          << ranks << ", rank " << wrong_rank;
    }
  }
}

// The host gives a communicator up while its kernels wait for a member that never comes.
TEST_P(ProtocolsTest, AnAbortedOperationLeaves) {
  for (const bool aborts : {true, false}) {
    HostHeaps heaps({});
    HostList lists[2];
    std::vector<char> in(4096), out(4096, 77);
    bool left = false, hung = false;
    Fibers fibers(7);
    fibers.Add([&] {
      const Work w = heaps.Make(0, 0, OpKind::kAllReduce, DataType::kFloat, Operator::kSum,
                                in.data(), out.data(), 300, 0, Way(GetParam()));
      RunOnHost(w, lists[0].Alone(), &fibers);
      left = !hung;
    });
    if (aborts) fibers.Add([&] { heaps.Fail(0, kFailedAborted); });
    fibers.OnHang([&] {
      hung = true;
      lists[0].Stop();
    });
    fibers.Run(kForEver);
    EXPECT_EQ(left, aborts);
    EXPECT_EQ(out, std::vector<char>(4096, 77));
    // The other member's kernels hear of it too.
    const Work other = heaps.Make(1, 0, OpKind::kAllReduce, DataType::kFloat, Operator::kSum,
                                  in.data(), out.data(), 300, 0, Way(GetParam()));
    EXPECT_EQ(HeaderAt(other, 1)->failed, aborts ? kFailedAborted : kNoFailure);
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
