// Several operations in one kernel, launched again and again as a graph would, and the wait for
// what was called before. A block of each rank's kernel is a fiber, since all blocks of such a
// kernel are resident at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/list/group_device.h"
#include "tests/unit/runtime/cuda/host_world.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {

template <>
inline bool GroupMayGoOn(HostBlock& b, const HelpList& h, const Work& w, uint32_t channel) {
  b.Stalled();
  return GroupMayGoOnInline(b, h, w, channel);
}
template <>
inline bool GateMayGoOn(HostBlock& b, const HelpList& h, const Work& w) {
  b.Stalled();
  return GateMayGoOnInline(b, h, w);
}

namespace {

constexpr uint64_t kForEver = 20000;

// Ways of carrying: by lines, or by chunks that need their receiver.
Thresholds Way(bool bulk) {
  Thresholds t;
  t.one_shot = t.two_shot_lines = t.move_lines = t.root_lines = bulk ? 0 : 4096;
  t.two_shot_tiles = t.move_tiles = 0;
  t.line_threads = 8;
  t.bulk_per_channel = 512;
  return t;
}

// One of a rank's operations, and what its output is to be.
struct Planned {
  OpKind kind;
  uint32_t peer;  // or root
  uint64_t count;
};

// A rank of a job that launches one group of operations again and again.
struct Member {
  std::vector<Planned> planned;
  std::vector<std::vector<float>> in, out;
  std::vector<Work> works;
  GroupWork<kFewGroupOperations> group;
  HostList list;
  uint32_t blocks = 1;
  uint32_t arrived = 0,
           launch = 0;  // blocks that have ended, of all launches; launches that have begun
  std::string problem;
};

class Groups {
 public:
  Groups(uint32_t ranks, uint64_t seed, bool bulk)
      : ranks_(ranks), bulk_(bulk), heaps_(Options(ranks)), fibers_(seed), members_(ranks) {}

  Member& of(uint32_t rank) { return members_[rank]; }
  HostHeaps& heaps() { return heaps_; }

  void Prepare(uint32_t rank, const std::vector<Planned>& planned) {
    Member& m = members_[rank];
    m.planned = planned;
    for (const Planned& p : planned) {
      m.in.emplace_back(InputCount(p.kind, p.count, ranks_));
      m.out.emplace_back(OutputCount(p.kind, p.count, ranks_));
      m.works.push_back(heaps_.Make(rank, 0, p.kind, DataType::kFloat, Operator::kSum,
                                    m.in.back().data(), m.out.back().data(), p.count, p.peer,
                                    Way(bulk_)));
    }
    PlanGroup(m.works, &m.group);
  }

  // Element i of the n-th operation between two ranks, in a launch.
  static float Sent(uint32_t from, uint32_t to, uint32_t nth, uint32_t launch, uint64_t i) {
    return static_cast<float>((from * 7 + to * 3 + nth * 5 + launch * 11 + i) % 251);
  }
  void Fill(uint32_t rank, uint32_t launch) {
    Member& m = members_[rank];
    std::vector<uint32_t> nth(ranks_, 0);
    for (size_t o = 0; o < m.planned.size(); ++o) {
      const Planned& p = m.planned[o];
      std::fill(m.out[o].begin(), m.out[o].end(), -1.0f);
      if (p.kind == OpKind::kRecv) continue;
      const uint32_t n = p.kind == OpKind::kSend ? nth[p.peer]++ : 0;
      for (size_t i = 0; i < m.in[o].size(); ++i)
        m.in[o][i] = Sent(rank, p.kind == OpKind::kSend ? p.peer : 0, n, launch, i);
    }
  }
  void Check(uint32_t rank, uint32_t launch) {
    Member& m = members_[rank];
    std::vector<uint32_t> nth(ranks_, 0);
    for (size_t o = 0; o < m.planned.size(); ++o) {
      const Planned& p = m.planned[o];
      if (p.kind == OpKind::kSend) continue;
      const uint32_t n = p.kind == OpKind::kRecv ? nth[p.peer]++ : 0;
      for (size_t i = 0; i < m.out[o].size(); ++i) {
        float want = 0;
        if (p.kind == OpKind::kRecv) want = Sent(p.peer, rank, n, launch, i);
        for (uint32_t r = 0; r < ranks_ && p.kind == OpKind::kAllReduce; ++r)
          want += Sent(r, 0, 0, launch, i);
        if (m.out[o][i] == want) continue;
        m.problem += "launch " + std::to_string(launch) + ", operation " + std::to_string(o) +
                     ": element " + std::to_string(i) + "\n";
        return;
      }
    }
  }

  // All in one kernel a launch, of `blocks` blocks.
  void LaunchGroups(uint32_t rank, uint32_t launches, uint32_t blocks) {
    Member& m = members_[rank];
    m.blocks = std::min(blocks, m.group.units);
    for (uint32_t index = 0; index < m.blocks; ++index) {
      fibers_.Add([this, &m, rank, launches, index] {
        HostBlock block(index, m.blocks, &fibers_);
        std::vector<GroupUnit> units(kGroupUnits);
        for (uint32_t launch = 0; launch < launches && !stopped_; ++launch) {
          if (index == 0) {
            Fill(rank, launch);
            m.launch = launch + 1;
          }
          while (m.launch <= launch && !stopped_) fibers_.Yield();
          if (stopped_) return;
          CarryGroup(block, units.data(), m.group, m.list.Alone());
          fibers_.Progress();
          ++m.arrived;
          while (m.arrived < m.blocks * (launch + 1) && !stopped_) fibers_.Yield();
          if (index == 0 && !stopped_) Check(rank, launch);
        }
      });
    }
  }
  // Each in a kernel of its own, one after the other: with a list, as an exclusive stream or a
  // group has it that is not captured, or without.
  void LaunchCarriers(uint32_t rank, uint32_t launches, bool listed) {
    fibers_.Add([this, rank, launches, listed] {
      Member& m = members_[rank];
      for (uint32_t launch = 0; launch < launches && !stopped_; ++launch) {
        Fill(rank, launch);
        std::vector<HelpList> help;
        for (const Work& w : m.works)
          help.push_back(listed ? m.list.Publish(w, help.empty()) : m.list.Alone());
        for (size_t o = 0; o < m.works.size() && !stopped_; ++o)
          RunOnHost(m.works[o], help[o], &fibers_);
        if (!stopped_) Check(rank, launch);
      }
    });
  }

  bool Run() {
    fibers_.OnHang([this] { Stop(); });
    return fibers_.Run(kForEver);
  }
  void Stop() {
    stopped_ = true;
    for (Member& m : members_) m.list.Stop();
  }
  void ExpectRight() {
    for (uint32_t r = 0; r < ranks_; ++r) {
      EXPECT_EQ(members_[r].problem, "") << "rank " << r;
      EXPECT_EQ(heaps_.Failed(r), kNoFailure);
    }
  }

 private:
  static HostHeaps::Options Options(uint32_t ranks) {
    HostHeaps::Options options;
    options.ranks = ranks;
    options.lines_per_lane = 512;
    return options;
  }

  const uint32_t ranks_;
  const bool bulk_;
  HostHeaps heaps_;
  Fibers fibers_;
  std::vector<Member> members_;
  bool stopped_ = false;
};

// Sends first, to the next rank, then receives from the one before.
std::vector<Planned> Ring(uint32_t ranks, uint32_t rank, uint64_t count) {
  return {{OpKind::kSend, (rank + 1) % ranks, count},
          {OpKind::kRecv, (rank + ranks - 1) % ranks, count}};
}

TEST(GroupKernel, CarriesARingLaunchAfterLaunch) {
  for (const uint32_t ranks : {2, 3, 5}) {
    for (const bool bulk : {false, true}) {
      for (const uint32_t blocks : {1, 2, 64}) {
        Groups groups(ranks, ranks * 10 + blocks, bulk);
        for (uint32_t r = 0; r < ranks; ++r) {
          groups.Prepare(r, Ring(ranks, r, 3000));
          groups.LaunchGroups(r, 30, blocks);
        }
        EXPECT_TRUE(groups.Run()) << ranks << " ranks, bulk " << bulk << ", " << blocks
                                  << " blocks";
        groups.ExpectRight();
      }
    }
  }
}

// The twin: the same operations one after the other, which wait for each other in a circle.
TEST(GroupKernel, OneAfterTheOtherTheRingHangs) {
  Groups groups(2, 1, true);
  for (uint32_t r = 0; r < 2; ++r) {
    groups.Prepare(r, Ring(2, r, 3000));
    groups.LaunchCarriers(r, 1, false);
  }
  EXPECT_FALSE(groups.Run());
}

// One rank captures its group and the other one does not.
TEST(GroupKernel, MeetsCarriersOfAnotherRank) {
  for (const bool bulk : {false, true}) {
    Groups groups(2, 7, bulk);
    for (uint32_t r = 0; r < 2; ++r) groups.Prepare(r, Ring(2, r, 2500));
    groups.LaunchGroups(0, 25, 3);
    groups.LaunchCarriers(1, 25, true);
    EXPECT_TRUE(groups.Run()) << bulk;
    groups.ExpectRight();
  }
}

// Several operations of one sequence, with unequal numbers of channels, among others and a
// collective.
TEST(GroupKernel, KeepsTheOrderOfASequence) {
  for (const bool bulk : {false, true}) {
    for (const uint32_t blocks : {1, 2, 5}) {
      Groups groups(3, 40 + blocks, bulk);
      for (uint32_t r = 0; r < 3; ++r) {
        std::vector<Planned> planned;
        const uint32_t next = (r + 1) % 3, before = (r + 2) % 3;
        for (const uint64_t count : {10, 700, 3, 1500})
          planned.push_back({OpKind::kSend, next, count});
        planned.push_back({OpKind::kAllReduce, 0, 400});
        for (const uint64_t count : {10, 700, 3, 1500})
          planned.push_back({OpKind::kRecv, before, count});
        planned.push_back({OpKind::kSend, before, 600});
        planned.push_back({OpKind::kRecv, next, 600});
        groups.Prepare(r, planned);
        EXPECT_EQ(groups.of(r).group.sequences, 5u);
        groups.LaunchGroups(r, 20, blocks);
      }
      EXPECT_TRUE(groups.Run()) << bulk << ", " << blocks << " blocks";
      groups.ExpectRight();
    }
  }
}

// One launch more than the other rank: it hangs, as it must, and the host's word ends it.
TEST(GroupKernel, LeavesWhenTheHostSaysSo) {
  Groups groups(2, 3, true);
  for (uint32_t r = 0; r < 2; ++r) {
    groups.Prepare(r, Ring(2, r, 3000));
    groups.LaunchGroups(r, r == 0 ? 11 : 10, 2);
  }
  EXPECT_FALSE(groups.Run());
  EXPECT_EQ(groups.of(0).problem, "");
  EXPECT_EQ(groups.of(1).problem, "");
  EXPECT_EQ(groups.of(0).launch, 11u);
}

// A receive of another size: told to both, no output written.
TEST(GroupKernel, TellsAMismatch) {
  for (const bool bulk : {false, true}) {
    Groups groups(2, 5, bulk);
    groups.Prepare(0, {{OpKind::kSend, 1, 900}, {OpKind::kRecv, 1, 900}});
    groups.Prepare(1, {{OpKind::kSend, 0, 900}, {OpKind::kRecv, 0, 800}});
    for (uint32_t r = 0; r < 2; ++r) groups.LaunchGroups(r, 1, 2);
    EXPECT_TRUE(groups.Run()) << bulk;
    EXPECT_EQ(groups.heaps().Failed(0), kFailedMismatch) << bulk;
    EXPECT_EQ(groups.heaps().Failed(1), kFailedMismatch) << bulk;
    EXPECT_EQ(groups.of(1).out[1][0], -1.0f) << bulk;
  }
}

// What was called before a communicator is captured: some channels of it are done, and some are
// not.
TEST(Gate, WaitsForAllThatWasCalled) {
  for (const bool is_called : {true, false}) {
    Groups groups(2, 9, false);
    Fibers fibers(17);
    std::vector<uint32_t> ended;  // 0: the gate, 1: rank 0's operations, in the order of their ends
    for (uint32_t r = 0; r < 2; ++r)
      groups.Prepare(r, {{OpKind::kAllReduce, 0, 400}, {OpKind::kAllReduce, 0, 10}});
    Gate gate{};
    gate.work = groups.of(0).works[0];
    gate.channels = gate.work.channels;
    ASSERT_GT(gate.channels, groups.of(0).works[1].channels);
    for (uint32_t c = 0; c < gate.channels; ++c)
      gate.called[c] = c < groups.of(0).works[1].channels ? 2 : 1;
    fibers.Add([&] {
      HostBlock block(0, 1, &fibers);
      AwaitCalled(block, gate, groups.of(0).list.Alone());
      ended.push_back(0);
    });
    for (uint32_t r = 0; r < 2; ++r) {
      fibers.Add([&, r] {
        for (int i = 0; i < 100; ++i) fibers.Yield();
        for (const Work& w : groups.of(r).works) {
          if (r == 0 && !is_called && &w == &groups.of(r).works[1]) return;
          RunOnHost(w, groups.of(r).list.Alone(), &fibers);
        }
        if (r == 0) ended.push_back(1);
      });
    }
    fibers.OnHang([&] { groups.Stop(); });
    EXPECT_EQ(fibers.Run(kForEver), is_called);
    if (is_called) {
      ASSERT_EQ(ended.size(), 2u);
      EXPECT_EQ(ended[0], 1u);
    } else {
      EXPECT_EQ(ended, std::vector<uint32_t>{0});  // only when it was told to leave
    }
    groups.ExpectRight();
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
