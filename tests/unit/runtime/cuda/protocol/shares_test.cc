// Kernels that carry several sends and receives: which blocks carry what, and that ranks come to an
// end however they group, order and place them.
#include "runtime/cuda/protocol/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/runtime/cuda/host_cases.h"
#include "tests/unit/runtime/cuda/host_world.h"

namespace gordian::runtime::cuda {
namespace {

Work Pair(uint32_t rank, uint32_t ranks, uint32_t peer, bool receives) {
  Work w{};
  w.rank = static_cast<uint8_t>(rank);
  w.ranks = static_cast<uint8_t>(ranks);
  w.order_key = 3 * kKeysOfCommunicator + KeyOfPair(peer, receives);
  return w;
}

TEST(SharesTest, BothEndsOfATransferHaveItsPlaceAndNoOtherHas) {
  for (uint32_t ranks = 2; ranks <= kMaxRanks; ++ranks) {
    std::map<uint32_t, int> seen;
    for (uint32_t from = 0; from < ranks; ++from) {
      for (uint32_t to = 0; to < ranks; ++to) {
        if (to == from) continue;
        const uint32_t place = PlaceOf(Pair(from, ranks, to, false));
        EXPECT_EQ(place, PlaceOf(Pair(to, ranks, from, true)));
        EXPECT_EQ(++seen[place], 1);
      }
    }
  }
}

TEST(SharesTest, EachChannelIsOneShareInOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto operations = static_cast<uint32_t>(1 + random() % kOfOneKernel);
    uint16_t channels[kOfOneKernel];
    std::vector<std::pair<uint32_t, uint32_t>> want;
    for (uint32_t i = 0; i < operations; ++i) {
      channels[i] = static_cast<uint16_t>(round % 3 == 0 ? 1 + round % kMaxChannels
                                                         : 1 + random() % kMaxChannels);
      for (uint32_t c = 0; c < channels[i]; ++c) want.emplace_back(c, i);
    }
    std::sort(want.begin(), want.end());
    ASSERT_EQ(SharesOf(channels, operations), want.size());
    for (uint32_t i = 0; i < want.size(); ++i) {
      const Share share = ShareAt(channels, operations, i);
      ASSERT_EQ(std::make_pair(share.channel, share.operation), want[i]);
    }
  }
}

// One transfer between two ranks; of a pair's, the earlier one in the program comes first on both.
struct Transfer {
  uint32_t from, to;
  uint64_t count;
  int way;
};

struct Program {
  uint32_t ranks = 3;
  std::vector<Transfer> transfers;
  std::vector<std::vector<std::vector<uint32_t>>> groups;  // of each rank: of transfers
  std::vector<bool> marked;  // by rank: its groups wait for what is before them
  bool renamed = false;
  bool sorts = true;  // each group as Domain::InRounds does
  bool visits = true;
  std::vector<uint32_t> slots;  // blocks that are there at once, by rank; no kernel has more
  bool interleaves = false;
};

struct Outcome {
  bool finished = false;
  uint64_t wrong = 0;
  uint32_t most = 0;  // operations of a kernel
};

float Value(uint32_t transfer, uint64_t i) {
  return static_cast<float>((transfer * 31 + i * 7) % 1021);
}

Outcome RunProgram(const Program& p, uint64_t seed) {
  HostHeaps::Options options;
  options.ranks = p.ranks;
  options.lines_per_lane = 1024;
  options.chunk_bytes = 128;
  options.user_bytes = 1 << 18;
  HostHeaps heaps(options);
  struct Operation {
    uint32_t transfer;
    Work work;
    std::vector<float> buffer;
    float* at;  // the buffer, or memory that peers write
    std::vector<char> room;
    uint32_t turn;
  };
  struct Rank {
    HostList list;
    std::vector<std::vector<Operation>> groups;
    std::unique_ptr<HostSlots> slots;
  };
  Outcome outcome;
  std::vector<Rank> ranks(p.ranks);
  for (uint32_t r = 0; r < p.ranks; ++r) {
    uint64_t heap_at = 0;
    for (const auto& group : p.groups[r]) {
      std::map<uint32_t, uint32_t> turns;
      auto& operations = ranks[r].groups.emplace_back();
      for (const uint32_t number : group) {
        const Transfer& t = p.transfers[number];
        const bool receives = t.to == r;
        Operation& op = operations.emplace_back();
        op.transfer = number;
        op.buffer.assign(t.count, -1);
        op.at = op.buffer.data();
        const uint64_t bytes = RoundUp(t.count * 4, 64);
        if (receives && number % 3 == 0 && heap_at + bytes <= options.user_bytes) {
          op.at = reinterpret_cast<float*>(heaps.User(r) + heap_at);
          heap_at += bytes;
          std::fill(op.at, op.at + t.count, -1.0f);
        }
        if (!receives) {
          for (uint64_t i = 0; i < t.count; ++i) op.at[i] = Value(number, i);
        }
        op.work = heaps.Make(r, 0, receives ? OpKind::kRecv : OpKind::kSend, DataType::kFloat,
                             Operator::kSum, receives ? nullptr : op.at, receives ? op.at : nullptr,
                             t.count, receives ? t.from : t.to, Way(static_cast<uint64_t>(t.way)));
        if (p.renamed && receives) op.room.assign(t.count * 4 + 64, 55);
        op.turn = turns[op.work.order_key]++;
      }
      if (p.sorts) {
        std::sort(operations.begin(), operations.end(), [](const Operation& a, const Operation& b) {
          return std::make_tuple(a.turn, WayOf(a.work), PlaceOf(a.work)) <
                 std::make_tuple(b.turn, WayOf(b.work), PlaceOf(b.work));
        });
      }
    }
  }
  Fibers fibers(seed);
  if (p.interleaves) fibers.Interleave();
  bool stopped = false;
  for (uint32_t r = 0; r < p.ranks; ++r)
    ranks[r].slots = std::make_unique<HostSlots>(p.slots[r], &fibers);
  for (uint32_t r = 0; r < p.ranks; ++r) {
    fibers.Add([&, r] {
      Rank& rank = ranks[r];
      for (auto& group : rank.groups) {
        std::vector<HelpList> help;
        for (Operation& op : group) {
          char* room = op.room.empty()
                           ? nullptr
                           : op.room.data() + (reinterpret_cast<uintptr_t>(op.work.out) & 15);
          help.push_back(rank.list.Publish(
              op.work, (p.marked[r] || &group == rank.groups.data()) && &op == group.data(), room));
        }
        for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
          std::vector<Work> works;
          std::vector<HelpList> entries;
          const auto fits = [&](const Operation& before, const Operation& next) {
            const auto is_next = [&](const Work& w) { return w.order_key == next.work.order_key; };
            if (WayOf(before.work) != WayOf(next.work) ||
                std::any_of(works.begin(), works.end(), is_next))
              return false;
            return !p.sorts || PlaceOf(before.work) < PlaceOf(next.work);
          };
          do {
            works.push_back(group[end].work);
            entries.push_back(help[end]);
            ++end;
          } while (end < group.size() && fits(group[end - 1], group[end]));
          outcome.most = std::max(outcome.most, static_cast<uint32_t>(works.size()));
          if (works.size() == 1) {
            rank.slots->Enqueue(works.data(), entries[0], p.slots[r]);
          } else {
            rank.slots->EnqueueSeveral(works, entries, p.slots[r], p.visits);
          }
        }
        fibers.Point();
      }
      rank.slots->NoMore();
    });
  }
  fibers.OnHang([&] {
    stopped = true;
    for (Rank& rank : ranks) {
      rank.list.Stop();
      rank.slots->Stop();
    }
  });
  fibers.Run(kForEver);
  outcome.finished = !stopped;
  if (stopped) return outcome;
  for (const Rank& rank : ranks) {
    EXPECT_TRUE(rank.slots->AllDone());
    for (const auto& group : rank.groups) {
      for (const Operation& op : group) {
        if ((op.work.flags & kWritesOutput) == 0) continue;
        for (uint64_t i = 0; i < p.transfers[op.transfer].count; ++i)
          outcome.wrong += op.at[i] != Value(op.transfer, i);
      }
    }
  }
  return outcome;
}

// Transfers in an order that all ranks share, which each of them has in groups of its own. No
// circle: the first of them that is unfinished is in the first group that is, on both ranks.
struct Mixture {
  uint32_t transfers = 24;
  bool one_way = false;
  bool one_group = false;
  bool one_by_one = false;  // on odd ranks
  uint32_t most = 500;      // elements
};
Program Mixed(const Mixture& m, uint64_t seed) {
  std::mt19937_64 random(seed);
  Program p;
  p.ranks = 2 + static_cast<uint32_t>(seed % 4);
  p.groups.resize(p.ranks);
  const int way = static_cast<int>(random() % kWays);
  for (uint32_t i = 0; i < m.transfers; ++i) {
    const auto from = static_cast<uint32_t>(random() % p.ranks);
    const auto to = static_cast<uint32_t>((from + 1 + random() % (p.ranks - 1)) % p.ranks);
    // Of very different sizes, as all-to-all-v has.
    const uint64_t count = 1 + random() % (random() % 3 == 0 ? m.most : 20);
    p.transfers.push_back({from, to, count, m.one_way ? way : static_cast<int>(random() % kWays)});
  }
  for (uint32_t r = 0; r < p.ranks; ++r) {
    p.marked.push_back(random() % 2 == 0);
    p.slots.push_back(1 + static_cast<uint32_t>(random() % 3));
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> pairs;
    for (uint32_t i = 0; i < m.transfers; ++i) {
      const Transfer& t = p.transfers[i];
      if (t.from != r && t.to != r) continue;
      const bool alone = m.one_by_one && r % 2 == 1;
      if (p.groups[r].empty() || alone || (!m.one_group && random() % 4 == 0))
        p.groups[r].emplace_back();
      p.groups[r].back().push_back(i);
    }
    for (auto& group : p.groups[r]) {  // within it in any order, but those of a pair in theirs
      std::vector<uint32_t> order = group;
      std::shuffle(order.begin(), order.end(), random);
      pairs.clear();
      for (const uint32_t i : group) pairs[{p.transfers[i].from, p.transfers[i].to}].push_back(i);
      std::map<std::pair<uint32_t, uint32_t>, size_t> next;
      for (size_t k = 0; k < order.size(); ++k) {
        const std::pair<uint32_t, uint32_t> of = {p.transfers[order[k]].from,
                                                  p.transfers[order[k]].to};
        group[k] = pairs[of][next[of]++];
      }
    }
  }
  return p;
}

template <typename Make>
void AllComplete(uint64_t seeds, uint32_t at_least, Make&& make) {
  uint32_t most = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Outcome o = RunProgram(make(seed), seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    most = std::max(most, o.most);
  }
  EXPECT_GE(most, at_least);  // or nothing was tested
}

TEST(SharesTest, AnyGroupsOfAnySizesComplete) {
  AllComplete(200, 6, [](uint64_t seed) {
    Mixture m;
    m.one_way = seed % 3 != 0;
    m.one_group = seed % 5 == 0;
    Program p = Mixed(m, seed);
    p.interleaves = seed % 2 == 0;
    p.renamed = seed % 7 == 0;
    return p;
  });
}

// Groups that are not sorted, since what they touch is not apart.
TEST(SharesTest, GroupsInOrdersOfTheRanksOwnComplete) {
  AllComplete(200, 6, [](uint64_t seed) {
    Mixture m;
    m.one_way = seed % 3 != 0;
    Program p = Mixed(m, seed);
    p.sorts = false;
    p.interleaves = seed % 2 == 0;
    p.renamed = seed % 7 == 0;
    return p;
  });
}

// Some ranks call one after the other what others have in groups, and nothing of it may begin
// early: a group's operations must go on side by side, in however few blocks.
Program OneByOne(uint64_t seed) {
  Mixture m;
  m.one_way = m.one_by_one = true;
  Program p = Mixed(m, seed);
  p.marked.assign(p.ranks, true);
  p.slots.assign(p.ranks, 1 + static_cast<uint32_t>(seed % 2));
  p.renamed = seed % 7 == 0;
  return p;
}
TEST(SharesTest, AGroupGoesOnBesidePeersThatCallOneByOne) { AllComplete(200, 6, OneByOne); }

TEST(SharesTest, ABlockThatOnlyWaitsHangsBesideThem) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Program p = OneByOne(seed);
    p.visits = false;
    const Outcome o = RunProgram(p, seed);
    EXPECT_EQ(o.wrong, 0u);
    hung += !o.finished;
  }
  EXPECT_GT(hung, 50u);
}

// One all-to-all-v by a group on all ranks: the order alone brings it to its end, one block a rank
// and nothing looked at but what comes next. Without the order it does not.
Program AllToAllV(uint64_t seed, bool sorts) {
  std::mt19937_64 random(seed);
  Program p;
  p.ranks = 3 + static_cast<uint32_t>(seed % 3);
  p.groups.resize(p.ranks);
  for (uint32_t from = 0; from < p.ranks; ++from) {
    for (uint32_t to = 0; to < p.ranks; ++to) {
      if (from != to && random() % 8 != 0)
        p.transfers.push_back({from, to, 1 + random() % 900, 2});  // by bulk: a send waits, too
    }
  }
  std::shuffle(p.transfers.begin(), p.transfers.end(), random);
  for (uint32_t r = 0; r < p.ranks; ++r) {
    p.groups[r].emplace_back();
    for (uint32_t i = 0; i < p.transfers.size(); ++i) {
      if (p.transfers[i].from == r || p.transfers[i].to == r) p.groups[r][0].push_back(i);
    }
    std::shuffle(p.groups[r][0].begin(), p.groups[r][0].end(), random);
  }
  p.marked.assign(p.ranks, true);
  p.slots.assign(p.ranks, 1);
  p.visits = false;
  p.sorts = sorts;
  return p;
}
TEST(SharesTest, InTheSharedOrderNobodyNeedsToLookElsewhere) {
  AllComplete(100, 6, [](uint64_t seed) { return AllToAllV(seed, true); });
}
TEST(SharesTest, InOrdersOfTheirOwnRanksWaitForEachOther) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed)
    hung += !RunProgram(AllToAllV(seed, false), seed).finished;
  EXPECT_GT(hung, 25u);
}

}  // namespace
}  // namespace gordian::runtime::cuda
