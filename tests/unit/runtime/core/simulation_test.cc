// The state machine alone, without threads: all (rank, operation, channel) machines as explicit
// state, and a scheduler that picks who does one step. A seed repeats a run exactly. Then every
// schedule of small programs, by states that were seen.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <numeric>
#include <unordered_set>

#include "runtime/core/step.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

// A program: each rank posts operations in its own order. Edges of the graph G are added by
// `joined`: a rank posts its next one only after the one before is done.
struct Program {
  int ranks = 2;
  PortGeometry geometry;
  std::vector<Case> operations;  // operation i is on port i % ports
  int ports = 2;
  std::vector<std::vector<int>> order;  // by rank
  bool joined = false;
  bool here = false;  // inputs are read and outputs written in place, as between threads
};

class SimWorld {
 public:
  SimWorld(const Program& program, uint32_t seed) : p_(program) {
    std::mt19937 random(seed);
    for (int i = 0; i < p_.ports; ++i) {
      memory_.emplace_back(PortBytes(p_.geometry) + kLine);
    }
    std::vector<uint64_t> next(p_.ports, 1);
    for (size_t o = 0; o < p_.operations.size(); ++o) {
      const Case& c = p_.operations[o];
      inputs_.emplace_back();
      outputs_.emplace_back();
      views_.emplace_back();
      contexts_.emplace_back();
      const int port = static_cast<int>(o) % p_.ports;
      const uint64_t seq = next[port]++;
      for (int r = 0; r < p_.ranks; ++r) {
        inputs_[o].push_back(RandomElements(c.type, InputElements(c, p_.ranks, r), random));
        outputs_[o].emplace_back(OutputElements(c, p_.ranks, r) * ElementSize(c.type));
        OpView v;
        v.desc.seq = seq;
        v.desc.kind = static_cast<OpKind>(c.kind);
        v.desc.dtype = static_cast<DataType>(c.type);
        v.desc.redop = static_cast<Operator>(c.op);
        v.desc.root_or_peer = c.root;
        v.desc.count = c.count;
        v.desc.algo = o % 2 == 0 ? Algo::kTwoShot : Algo::kOneShot;
        v.desc.nchan = static_cast<uint16_t>(p_.geometry.channels);
        v.desc.signature = Signature(v.desc);
        v.port = PortView(Aligned(port), p_.geometry);
        v.me = static_cast<uint32_t>(r);
        if (!inputs_[o][r].empty()) v.in = inputs_[o][r].data();
        if (!outputs_[o][r].empty()) v.out = outputs_[o][r].data();
        Complete(&v);
        v.in_here = p_.here && p_.ranks > 1 && (v.publishers >> r & 1) != 0;
        v.out_here = p_.here && v.chunks.two_shot;
        views_[o].push_back(v);
        contexts_[o].emplace_back(p_.geometry.channels);
      }
    }
    begun_.assign(p_.operations.size(), std::vector<uint8_t>(p_.ranks, 0));
    done_ = begun_;
    posted_.assign(p_.ranks, p_.joined ? 1 : static_cast<int>(p_.operations.size()));
  }

  // Machine k of all: a rank's operation's channel. True if it did a step.
  bool Step(size_t k) {
    const size_t channels = p_.geometry.channels;
    const size_t channel = k % channels, r = k / channels % p_.ranks, o = k / channels / p_.ranks;
    if (done_[o][r] != 0 || !IsPosted(static_cast<int>(r), static_cast<int>(o))) return false;
    OpView& v = views_[o][r];
    uint64_t wanted = 0;
    if (begun_[o][r] == 0) {
      const Progress progress = Begin(v, &wanted);
      EXPECT_TRUE(progress == Progress::kAdvanced ||
                  (progress == Progress::kNotReady && wanted != 0));
      begun_[o][r] = progress == Progress::kAdvanced;
      return progress == Progress::kAdvanced;
    }
    ChanCtx& ctx = contexts_[o][r][channel];
    const ChanCtx before = ctx;
    const Progress progress = TryStep(v, static_cast<uint32_t>(channel), ctx, &wanted);
    EXPECT_TRUE(CheckInvariants(v));
    if (progress == Progress::kNotReady) {
      EXPECT_NE(wanted, 0u) << "waits for nobody";
      EXPECT_EQ(ctx.sent + ctx.recvd + ctx.reduced, before.sent + before.recvd + before.reduced);
    }
    bool all = true;
    for (const ChanCtx& c : contexts_[o][r]) all = all && c.state == kChanDone;
    if (all) {
      Finish(v);
      done_[o][r] = 1;
      if (p_.joined) ++posted_[r];
    }
    return progress == Progress::kAdvanced;
  }
  size_t machines() const { return p_.operations.size() * p_.ranks * p_.geometry.channels; }
  bool Done() const {
    for (const auto& ranks : done_) {
      for (const uint8_t done : ranks) {
        if (done == 0) return false;
      }
    }
    return true;
  }
  bool ResultsAreRight() const {
    for (size_t o = 0; o < p_.operations.size(); ++o) {
      if (Expected(p_.operations[o], inputs_[o], {}) != outputs_[o]) return false;
    }
    return true;
  }
  // All that a later step can depend on, but for the data, which follows from it.
  std::string State() const {
    std::string s;
    const auto put = [&s](uint64_t word) {
      s.push_back(static_cast<char>(word));
    };  // small numbers
    for (int port = 0; port < p_.ports; ++port) {
      const PortView view(Aligned(port), p_.geometry);
      for (uint32_t slot = 0; slot < p_.geometry.window; ++slot) {
        for (uint32_t m = 0; m < p_.geometry.members; ++m) {
          put(view.BoardOf(slot, m).seq);
          put(view.BoardOf(slot, m).done_seq);
          for (uint32_t c = 0; c < p_.geometry.channels; ++c) {
            const Counters& counters = view.CountersOf(slot, m, c);
            put(counters.published);
            put(counters.consumed);
            put(counters.reduced);
            put(counters.gathered);
          }
        }
      }
    }
    for (const auto& ranks : contexts_) {
      for (const auto& channels : ranks) {
        for (const ChanCtx& c : channels) {
          for (const uint64_t word :
               {uint64_t{c.reduced}, uint64_t{c.agreed}, c.sent, c.recvd, uint64_t{c.state}})
            put(word);
        }
      }
    }
    for (const auto& ranks : begun_) s.append(ranks.begin(), ranks.end());
    for (const auto& ranks : done_) s.append(ranks.begin(), ranks.end());
    return s;
  }

 private:
  unsigned char* Aligned(int port) const {
    auto at = reinterpret_cast<uintptr_t>(memory_[port].data());
    return reinterpret_cast<unsigned char*>((at + kLine - 1) / kLine * kLine);
  }
  bool IsPosted(int r, int o) const {
    for (int i = 0; i < posted_[r] && i < static_cast<int>(p_.order[r].size()); ++i) {
      if (p_.order[r][i] == o) return true;
    }
    return false;
  }

  const Program p_;
  std::vector<std::vector<unsigned char>> memory_;
  std::vector<std::vector<Bytes>> inputs_, outputs_;
  std::vector<std::vector<OpView>> views_;
  std::vector<std::vector<std::vector<ChanCtx>>> contexts_;
  std::vector<std::vector<uint8_t>> begun_, done_;
  std::vector<int> posted_;  // so many of the rank's order
};

Program RandomProgram(uint32_t seed) {
  std::mt19937 random(seed);
  Program p;
  p.ranks = 1 + static_cast<int>(random() % 5);
  p.geometry.members = static_cast<uint32_t>(p.ranks);
  p.geometry.window = 1 + random() % 2;
  p.geometry.channels = 1 + random() % 2;
  p.geometry.chunk_bytes = 128;
  p.here = random() % 3 == 0;
  p.ports = 1 + static_cast<int>(random() % 3);
  const int operations = 1 + static_cast<int>(random() % 6);
  constexpr grtKind_t kKinds[] = {grtKindAllReduce, grtKindAllGather, grtKindReduceScatter,
                                  grtKindBroadcast, grtKindReduce,    grtKindAllToAll,
                                  grtKindGather,    grtKindScatter};
  for (int o = 0; o < operations; ++o) {
    p.operations.push_back({kKinds[random() % 8], grtInt32, grtSum, random() % (2 * 32 * kSlots),
                            static_cast<int>(random() % p.ranks), false});
  }
  for (int r = 0; r < p.ranks; ++r) {
    // Any order of ports; within a port the same at all.
    std::vector<int> order(operations);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    p.order.push_back(order);
  }
  return p;
}

enum class Strategy { kUniform, kStarveOne, kOneAtATime };

// The trace of a run: who stepped. Empty: it got stuck.
std::vector<uint32_t> Simulate(SimWorld& world, uint32_t seed, Strategy strategy) {
  std::mt19937 random(seed);
  std::vector<uint32_t> trace;
  const size_t n = world.machines();
  const size_t starved = random() % n;
  size_t favourite = random() % n;
  size_t fruitless = 0;
  while (!world.Done()) {
    size_t k = random() % n;
    // Everyone else first: the starved one moves only when nobody else can.
    if (strategy == Strategy::kStarveOne && k == starved && fruitless < 4 * n) {
      ++fruitless;
      continue;
    }
    if (strategy == Strategy::kOneAtATime) k = fruitless == 0 ? favourite : k;
    if (world.Step(k)) {
      trace.push_back(static_cast<uint32_t>(k));
      fruitless = 0;
      favourite = k;
    } else if (++fruitless > 400 * n) {
      return {};
    }
  }
  return trace;
}

TEST(Simulation, RandomProgramsInRandomSchedules) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    const Program program = RandomProgram(seed);
    SimWorld world(program, seed);
    const auto strategy = static_cast<Strategy>(seed % 3);
    ASSERT_FALSE(Simulate(world, seed, strategy).empty()) << "stuck; seed " << seed;
    ASSERT_TRUE(world.ResultsAreRight()) << "seed " << seed;
  }
}

TEST(Simulation, ASeedRepeatsARun) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SimWorld once(RandomProgram(seed), seed), again(RandomProgram(seed), seed);
    EXPECT_EQ(Simulate(once, seed, Strategy::kUniform), Simulate(again, seed, Strategy::kUniform));
  }
}

// Every schedule: from each state that can be reached, all steps that can be done. A step of one
// machine never takes away another's, so that a state without a step is looked for, not only an
// end.
struct Explored {
  size_t states = 0, ends = 0, stuck = 0;
};
Explored Explore(const Program& program, size_t most) {
  Explored result;
  std::unordered_set<std::string> seen;
  std::deque<std::vector<uint32_t>> paths = {
      {}};  // states by how to get there: small programs only
  while (!paths.empty() && seen.size() < most) {
    const std::vector<uint32_t> path = std::move(paths.back());
    paths.pop_back();
    const size_t machines = SimWorld(program, 1).machines();
    bool any = false;
    for (size_t k = 0; k < machines; ++k) {
      SimWorld world(program, 1);
      for (const uint32_t step : path) world.Step(step);
      if (!world.Step(k)) continue;
      any = true;
      if (!seen.insert(world.State()).second) continue;
      std::vector<uint32_t> longer = path;
      longer.push_back(static_cast<uint32_t>(k));
      if (world.Done()) {
        ++result.ends;
        EXPECT_TRUE(world.ResultsAreRight());
      } else {
        paths.push_back(std::move(longer));
      }
    }
    if (!any) ++result.stuck;
  }
  result.states = seen.size();
  EXPECT_TRUE(paths.empty()) << "more states than " << most;
  return result;
}

Program Small(int ranks, std::vector<Case> operations, int ports, uint32_t window) {
  Program p;
  p.ranks = ranks;
  p.geometry = {static_cast<uint32_t>(ranks), window, 1, 128};
  p.operations = std::move(operations);
  p.ports = ports;
  for (int r = 0; r < ranks; ++r) {
    std::vector<int> order(p.operations.size());
    std::iota(order.begin(), order.end(), 0);
    if (r == ranks - 1) std::reverse(order.begin(), order.end());
    p.order.push_back(order);
  }
  return p;
}

constexpr Case kReduce{grtKindAllReduce, grtInt32, grtSum, 40, 0, false};  // two chunks
constexpr Case kTiny{grtKindAllReduce, grtInt32, grtSum, 1, 0, false};
// More chunks of 32 elements than a lane has slots.
constexpr size_t kBeyondALane = 32 * kSlots + 1;
constexpr Case kSendAll{grtKindBroadcast, grtInt32, grtSum, kBeyondALane, 1, false};
constexpr Case kLongReduce{grtKindAllReduce, grtInt32, grtSum, kBeyondALane, 0, false};

TEST(Exhaustive, TwoRanksOppositeOrders) {
  const Explored e = Explore(Small(2, {kReduce, kTiny}, 2, 1), 200000);
  EXPECT_EQ(e.stuck, 0u);
  EXPECT_GE(e.ends, 1u);
  EXPECT_GT(e.states, 100u);
}

TEST(Exhaustive, TwoRanksThreeOperationsInOneSlot) {
  const Explored e = Explore(Small(2, {kTiny, kSendAll, kTiny}, 1, 1), 200000);
  EXPECT_EQ(e.stuck, 0u);
  EXPECT_GE(e.ends, 1u);
}

TEST(Exhaustive, TwoRanksThatWaitForRoom) {
  const Explored e = Explore(Small(2, {kLongReduce}, 1, 1), 200000);
  EXPECT_EQ(e.stuck, 0u);
  EXPECT_EQ(e.ends, 1u);
  EXPECT_GT(e.states, 200u);
}

TEST(Exhaustive, TwoRanksThatWriteEachOthersOutputs) {
  Program program = Small(2, {kLongReduce, kTiny}, 2, 1);
  program.here = true;
  const Explored e = Explore(program, 200000);
  EXPECT_EQ(e.stuck, 0u);
  EXPECT_EQ(e.ends, 1u);
}

TEST(Exhaustive, ThreeRanks) {
  const Explored e = Explore(Small(3, {kTiny, kTiny}, 2, 1), 200000);
  EXPECT_EQ(e.stuck, 0u);
  EXPECT_GE(e.ends, 1u);
}

// With a cycle in G (each rank posts its second operation after its first is done) there is no way,
// and the explorer finds that: it can fail.
TEST(Exhaustive, ACycleInTheGraphGetsStuck) {
  Program p = Small(2, {kTiny, kTiny}, 2, 1);
  p.joined = true;
  const Explored e = Explore(p, 200000);
  EXPECT_GE(e.stuck, 1u);
  EXPECT_EQ(e.ends, 0u);
}

}  // namespace
}  // namespace gordian::runtime::testing
