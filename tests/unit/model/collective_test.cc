// analyzer/model/collective.h against a naive twin that carries each operation out as nccl.h
// describes it, on sets instead of numbers: which blocks a member's call reads, and whose data
// arrives in which block.
#include "analyzer/model/collective.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gordian::model {
namespace {

constexpr Call kCollectives[] = {Call::kAllReduce, Call::kAllGather, Call::kReduceScatter,
                                 Call::kBroadcast, Call::kReduce,    Call::kAllToAll,
                                 Call::kGather,    Call::kScatter};
constexpr int kMostMembers = 8;
constexpr uint64_t kCount = 10;

// One operation, carried out. Blocks are of `count` elements.
class Execution {
 public:
  Execution(Call call, int members, int root, bool product = false)
      : read_(static_cast<size_t>(members)), written_(static_cast<size_t>(members)) {
    for (int me = 0; me < members; ++me) {
      for (int other = 0; other < members; ++other) {
        switch (call) {
          case Call::kAllReduce:
            Move(other, 0, me, 0, product);
            break;
          case Call::kAllGather:
            Move(other, 0, me, other);
            break;
          case Call::kReduceScatter:
            Move(other, me, me, 0, product);
            break;
          case Call::kBroadcast:
            if (other == root) Move(root, 0, me, 0);
            break;
          case Call::kReduce:
            if (me == root) Move(other, 0, root, 0, product);
            break;
          case Call::kAllToAll:
            Move(other, me, me, other);
            break;
          case Call::kGather:
            if (me == root) Move(other, 0, root, other);
            break;
          case Call::kScatter:
            if (other == root) Move(root, me, me, 0);
            break;
          default:
            ADD_FAILURE() << "no collective";
        }
      }
    }
  }

  size_t BlocksRead(int member) const { return read_[static_cast<size_t>(member)].size(); }
  size_t BlocksWritten(int member) const {
    std::set<int> blocks;
    for (const Arrival& arrival : written_[static_cast<size_t>(member)])
      blocks.insert(arrival.block);
    return blocks.size();
  }
  bool Gets(int member, int from) const {
    const std::set<Arrival>& all = written_[static_cast<size_t>(member)];
    return std::any_of(all.begin(), all.end(),
                       [&](const Arrival& arrival) { return arrival.from == from; });
  }
  // Whether some block is made of several members' data.
  bool Combines() const {
    return std::any_of(written_.begin(), written_.end(), [](const std::set<Arrival>& all) {
      std::set<int> blocks;
      for (const Arrival& arrival : all) blocks.insert(arrival.block);
      return blocks.size() < all.size();
    });
  }
  friend bool operator==(const Execution&, const Execution&) = default;

 private:
  struct Arrival {
    int block, from, from_block;
    bool product;
    auto operator<=>(const Arrival&) const = default;
  };
  void Move(int from, int from_block, int to, int block, bool product = false) {
    read_[static_cast<size_t>(from)].insert(from_block);
    written_[static_cast<size_t>(to)].insert({block, from, from_block, product});
  }

  std::vector<std::set<int>> read_;         // by member: blocks of its send buffer
  std::vector<std::set<Arrival>> written_;  // by member
};

// check(call, members, root, execution) for every kind, size and root.
template <typename Check>
void ForEachCollective(Check check) {
  for (const Call call : kCollectives) {
    for (int members = 1; members <= kMostMembers; ++members) {
      for (int root = 0; root < members; ++root) {
        SCOPED_TRACE("call " + std::to_string(static_cast<int>(call)) + ", " +
                     std::to_string(members) + " members, root " + std::to_string(root));
        check(call, members, root, Execution(call, members, root));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(Collective, AMemberNeedsTheStartsOfThoseWhoseDataItGets) {
  ForEachCollective([](Call call, int members, int root, const Execution& twin) {
    for (int me = 0; me < members; ++me) {
      const Role role = {call, me, root, kCount};
      for (int other = 0; other < members; ++other) {
        if (other != me) {
          EXPECT_EQ(NeedsStartOf(role, other), twin.Gets(me, other));
        }
        EXPECT_TRUE(NeedsStartOf(role, other, Buffers::kHoldNone));
      }
      // With others there, somebody who needs none of them gets nothing but its own data.
      if (members > 1) {
        bool from_others = false;
        for (int other = 0; other < members; ++other)
          from_others |= other != me && twin.Gets(me, other);
        EXPECT_EQ(NeedsOf(role) != Needs::kNoOther, from_others);
      }
    }
  });
}

TEST(Collective, BuffersHoldWhatACallReadsAndWrites) {
  ForEachCollective([](Call call, int members, int root, const Execution& twin) {
    const auto n = static_cast<uint64_t>(members);
    uint64_t largest = 0;
    for (int me = 0; me < members; ++me) {
      const Role role = {call, me, root, kCount};
      EXPECT_EQ(ElementsSent(role, n), kCount * twin.BlocksRead(me));
      EXPECT_EQ(ElementsReceived(role, n), kCount * twin.BlocksWritten(me));
      largest = std::max({largest, kCount * twin.BlocksRead(me), kCount * twin.BlocksWritten(me)});
    }
    EXPECT_EQ(LargestBuffer(call, kCount, n), largest);
    // One by one, a share is what is moved at a time.
    EXPECT_EQ(TunedElements(call, kCount, n), IsPairwise(call) ? kCount : largest);
  });
}

TEST(Collective, PairsConnectInTheDirectionsInWhichDataGoes) {
  ForEachCollective([](Call call, int members, int root, const Execution& twin) {
    const bool pairwise =
        call == Call::kAllToAll || call == Call::kGather || call == Call::kScatter;
    for (int me = 0; me < members; ++me) {
      std::set<std::pair<int, bool>> wanted;
      for (int other = 0; pairwise && other < members; ++other) {
        if (other == me) continue;
        if (twin.Gets(other, me)) wanted.insert({other, true});
        if (twin.Gets(me, other)) wanted.insert({other, false});
      }
      const FirstUses uses = FirstUsesOf({call, me, root, kCount}, members);
      EXPECT_EQ((std::set<std::pair<int, bool>>(uses.peers.begin(), uses.peers.end())), wanted);
      EXPECT_EQ(uses.peers.size(), wanted.size()) << "one is named twice";
      EXPECT_EQ(uses.collectives, !pairwise);
    }
  });
}

TEST(Collective, TheRootIsWhoseChangeChangesTheOperation) {
  ForEachCollective([](Call call, int members, int root, const Execution& twin) {
    for (int me = 0; me < members; ++me)
      EXPECT_EQ(IsRoot({call, me, root, kCount}), HasRoot(call) && me == root);
    if (members < 2) return;
    const int another = (root + 1) % members;
    EXPECT_EQ(HasRoot(call), !(Execution(call, members, another) == twin));
    const OpSignature one{call, 7, 0, root, kCount}, other{call, 7, 0, another, kCount};
    EXPECT_EQ(Difference(one, other), HasRoot(call) ? uint32_t{kRootDiffers} : 0u);
  });
}

TEST(Collective, AnOperatorCountsWhereDataIsCombined) {
  ForEachCollective([](Call call, int members, int root, const Execution& twin) {
    if (members < 2) return;
    EXPECT_EQ(Reduces(call), twin.Combines());
    const bool matters = !(Execution(call, members, root, /*product=*/true) == twin);
    const OpSignature sum{call, 7, 0, root, kCount}, product{call, 7, 1, root, kCount};
    EXPECT_EQ(Difference(sum, product), matters ? uint32_t{kOperatorDiffers} : 0u);
  });
}

TEST(Collective, MembersAgreeOnKindCountAndType) {
  for (const Call call : kCollectives) {
    const OpSignature own{call, 7, 0, 1, kCount};
    EXPECT_EQ(Difference(own, own), 0u);
    for (const Call another : kCollectives) {
      OpSignature other = own;
      other.call = another;
      EXPECT_EQ(Difference(own, other), another == call ? 0u : uint32_t{kKindDiffers});
    }
    OpSignature other = own;
    other.count = 11;
    EXPECT_EQ(Difference(own, other), uint32_t{kCountDiffers});
    other.datatype = 8;
    EXPECT_EQ(Difference(own, other), uint32_t{kCountDiffers | kTypeDiffers});
    EXPECT_EQ(Difference(own, other), Difference(other, own));
  }
}

TEST(Collective, OfNothingNeedsAndConnectsNobody) {
  ForEachCollective([](Call call, int members, int root, const Execution&) {
    for (int me = 0; me < members; ++me) {
      const Role role = {call, me, root, 0};
      EXPECT_TRUE(IsEmpty(role));
      EXPECT_FALSE(UsesChannelsOfAll(role));
      EXPECT_EQ(NeedsOf(role), Needs::kNoOther);
      EXPECT_EQ(NeedsOf(role, Buffers::kHoldNone), Needs::kNoOther);
      EXPECT_TRUE(PeersOf(role, members).empty());
      EXPECT_EQ(ElementsSent(role, 8) + ElementsReceived(role, 8), 0u);
    }
  });
}

TEST(Collective, ATransferNeedsTheSendAndConnectsItsTwoEnds) {
  for (int source = 0; source < kMostMembers; ++source) {
    for (int destination = 0; destination < kMostMembers; ++destination) {
      for (const uint64_t count :
           {uint64_t{0}, kCount}) {  // send_zero_recv_zero: one of nothing waits as well
        const Role send = {Call::kSend, source, destination, count};
        const Role receive = {Call::kRecv, destination, source, count};
        for (const Role& role : {send, receive}) {
          EXPECT_FALSE(IsEmpty(role));
          EXPECT_FALSE(IsRoot(role));
          EXPECT_FALSE(UsesChannelsOfAll(role));
          EXPECT_EQ(EndsOf(role).source, source);
          EXPECT_EQ(EndsOf(role).destination, destination);
          EXPECT_EQ(NeedsOf(role, Buffers::kHoldNone), Needs::kOne);
          EXPECT_EQ(LargestBuffer(role.call, count, 8), count);
        }
        EXPECT_EQ(NeedsOf(send), Needs::kNoOther);
        EXPECT_TRUE(NeedsStartOf(receive, source));
        EXPECT_EQ(ElementsSent(send, 8), count);
        EXPECT_EQ(ElementsReceived(send, 8), 0u);
        EXPECT_EQ(ElementsSent(receive, 8), 0u);
        EXPECT_EQ(ElementsReceived(receive, 8), count);
        using Peers = std::vector<std::pair<int, bool>>;
        const bool self = source == destination;
        EXPECT_EQ(PeersOf(send, 8), self ? Peers() : Peers({{destination, true}}));
        EXPECT_EQ(PeersOf(receive, 8), self ? Peers() : Peers({{source, false}}));
      }
    }
  }
}

TEST(Collective, ElementsHaveTheBytesOfTheirType) {
  const std::map<ncclDataType_t, size_t> bytes = {{ncclInt8, sizeof(int8_t)},
                                                  {ncclUint8, sizeof(uint8_t)},
                                                  {ncclInt32, sizeof(int32_t)},
                                                  {ncclUint32, sizeof(uint32_t)},
                                                  {ncclInt64, sizeof(int64_t)},
                                                  {ncclUint64, sizeof(uint64_t)},
                                                  {ncclFloat16, 2},
                                                  {ncclFloat32, sizeof(float)},
                                                  {ncclFloat64, sizeof(double)},
                                                  {ncclBfloat16, 2},
                                                  {ncclFloat8e4m3, 1},
                                                  {ncclFloat8e5m2, 1}};
  ASSERT_EQ(bytes.size(), size_t{ncclNumTypes});
  for (const auto& [type, size] : bytes) {
    const auto number = static_cast<uint8_t>(type);
    EXPECT_EQ(DatatypeBytes(number), size) << type;
    EXPECT_EQ(Bytes({Call::kAllReduce, number, 0, -1, kCount}), kCount * size) << type;
  }
  for (const int unknown : {int{ncclNumTypes}, 255})
    EXPECT_EQ(DatatypeBytes(static_cast<uint8_t>(unknown)), 0u);
}

// A barrier moves no bytes, so Execution has nothing to carry out: every member needs all others.
TEST(Collective, ABarrierNeedsAllMembers) {
  EXPECT_EQ(NeedsOf({Call::kBarrier, 0, -1, 1}), Needs::kAll);
  EXPECT_EQ(NeedsOf({Call::kBarrier, 0, -1, 1}, Buffers::kHoldNone), Needs::kAll);
  EXPECT_FALSE(HasRoot(Call::kBarrier) || Reduces(Call::kBarrier) || IsPairwise(Call::kBarrier));
}

TEST(Collective, OtherCallsAreNoOperations) {
  for (int call = 0; call <= static_cast<int>(Call::kPoll); ++call) {
    const Call kind = static_cast<Call>(call);
    const bool collective =
        kind == Call::kBarrier ||
        std::find(std::begin(kCollectives), std::end(kCollectives), kind) != std::end(kCollectives);
    EXPECT_EQ(IsCollective(kind), collective) << call;
    EXPECT_EQ(IsOperation(kind), collective || kind == Call::kSend || kind == Call::kRecv) << call;
    EXPECT_EQ(ContractOf(kind).call, IsOperation(kind) ? kind : Call::kOther) << call;
    if (IsOperation(kind)) continue;
    EXPECT_FALSE(HasRoot(kind) || Reduces(kind) || IsPairwise(kind)) << call;
    EXPECT_EQ(NeedsOf({kind, 0, 1, kCount}, Buffers::kHoldNone), Needs::kNoOther) << call;
    EXPECT_TRUE(PeersOf({kind, 0, 1, kCount}, 4).empty()) << call;
  }
}

}  // namespace
}  // namespace gordian::model
