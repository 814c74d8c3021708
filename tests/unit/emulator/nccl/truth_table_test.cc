// Every row of the measured table of what NCCL does, decided by running it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

constexpr size_t kFloats = 1024;

// A rank with its communicators used once, so that nothing blocks for the first use any more.
struct Scene {
  explicit Scene(Rank& rank, size_t floats = kFloats) : rank(rank), buffer(floats * sizeof(float)) {
    first = MakeStream();
    second = MakeStream();
  }
  ncclComm_t Warm(int id, int nranks, int comm_rank) {
    ncclComm_t comm = rank.Init(id, nranks, comm_rank);
    AllReduce(comm, first);
    Synchronize(first);
    return comm;
  }
  ncclComm_t Warm(int id) { return Warm(id, rank.size(), rank.rank()); }
  // Connects point-to-point both ways between all ranks.
  void WarmPeers(ncclComm_t comm) {
    REQUIRE_NCCL(ncclGroupStart());
    for (int peer = 0; peer < rank.size(); ++peer) {
      if (peer == rank.rank()) continue;
      REQUIRE_NCCL(ncclSend(buffer.As<float>(), 1, ncclFloat, peer, comm, first));
      REQUIRE_NCCL(ncclRecv(buffer.As<float>() + 1, 1, ncclFloat, peer, comm, first));
    }
    REQUIRE_NCCL(ncclGroupEnd());
    Synchronize(first);
  }
  void AllReduce(ncclComm_t comm, cudaStream_t stream, size_t count = 4) {
    REQUIRE_NCCL(ncclAllReduce(buffer.As<float>(), buffer.As<float>(), count, ncclFloat, ncclSum,
                               comm, stream));
  }
  void SyncAll() { REQUIRE_CUDA(cuCtxSynchronize()); }

  Rank& rank;
  Buffer buffer;
  cudaStream_t first;
  cudaStream_t second;
};

TEST(TruthTable, OppositeOrderOnOneStreamHangs) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t a = s.Warm(0), b = s.Warm(1);
    s.AllReduce(rank.rank() == 0 ? a : b, s.first);
    s.AllReduce(rank.rank() == 0 ? b : a, s.first);
    rank.Mark(1);
    s.SyncAll();
    rank.Mark(2);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
  EXPECT_TRUE(outcome.left.empty());
}

TEST(TruthTable, SameOrderOnOneStreamCompletes) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                Scene s(rank);
                ncclComm_t a = s.Warm(0), b = s.Warm(1);
                s.AllReduce(a, s.first);
                s.AllReduce(b, s.first);
                s.SyncAll();
              }).Succeeded());
}

void OppositeOrderOnTwoStreams(Rank& rank, const std::function<void(Scene&)>& between) {
  Scene s(rank);
  ncclComm_t a = s.Warm(0), b = s.Warm(1);
  s.AllReduce(rank.rank() == 0 ? a : b, s.first);
  rank.Mark(1);
  between(s);
  s.AllReduce(rank.rank() == 0 ? b : a, s.second);
  rank.Mark(2);
  s.SyncAll();
  rank.Mark(3);
}

TEST(TruthTable, OppositeOrderOnTwoStreamsCompletes) {
  Outcome outcome = RunJob(2, [](Rank& rank) { OppositeOrderOnTwoStreams(rank, [](Scene&) {}); });
  EXPECT_TRUE(outcome.Succeeded());
}

TEST(TruthTable, DeviceSynchronizeBetweenTwoStreamsHangs) {
  Outcome outcome =
      RunJob(2, [](Rank& rank) { OppositeOrderOnTwoStreams(rank, [](Scene& s) { s.SyncAll(); }); });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

TEST(TruthTable, FreeBetweenTwoStreamsHangs) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    CUdeviceptr unrelated = 0;
    REQUIRE_CUDA(cuMemAlloc(&unrelated, 4096));
    OppositeOrderOnTwoStreams(rank, [&](Scene&) { REQUIRE_CUDA(cuMemFree(unrelated)); });
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// Communicators between 0-1 (id 0), 1-2 (id 1) and 2-0 (id 2).
void ThreePairs(Rank& rank, bool cycle) {
  Scene s(rank);
  ncclComm_t comms[3] = {};
  // Init in the order of the ids, so that init itself does not go round in a circle.
  const int members[3][2] = {{0, 1}, {1, 2}, {2, 0}};
  for (int c = 0; c < 3; ++c) {
    for (int m = 0; m < 2; ++m) {
      if (members[c][m] == rank.rank()) comms[c] = s.Warm(c, 2, m);
    }
  }
  int first = rank.rank(), second = (rank.rank() + 2) % 3;
  if (!cycle && rank.rank() == 2) std::swap(first, second);
  s.AllReduce(comms[first], s.first);
  s.AllReduce(comms[second], s.first);
  rank.Mark(1);
  s.SyncAll();
}

TEST(TruthTable, ThreeCommunicatorsInACycleHang) {
  Outcome outcome = RunJob(3, [](Rank& rank) { ThreePairs(rank, true); });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1, 1}));
}

TEST(TruthTable, ThreeCommunicatorsWithoutACycleComplete) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) { ThreePairs(rank, false); }).Succeeded());
}

TEST(TruthTable, InversionWithASubsetHangs) {
  Outcome outcome = RunJob(3, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t world = s.Warm(0), subset = nullptr;
    if (rank.rank() < 2) subset = s.Warm(1, 2, rank.rank());
    if (rank.rank() == 1) s.AllReduce(subset, s.first);
    s.AllReduce(world, s.first);
    if (rank.rank() == 0) s.AllReduce(subset, s.first);
    rank.Mark(1);
    s.SyncAll();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1, 1}));
}

TEST(TruthTable, ReceiveAndAllReduceCrossedHangs) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t comm = s.Warm(0);
    s.WarmPeers(comm);
    if (rank.rank() == 0) {
      REQUIRE_NCCL(ncclRecv(s.buffer.As<float>(), 4, ncclFloat, 1, comm, s.first));
      s.AllReduce(comm, s.first);
    } else {
      s.AllReduce(comm, s.first);
      REQUIRE_NCCL(ncclSend(s.buffer.As<float>(), 4, ncclFloat, 0, comm, s.first));
    }
    rank.Mark(1);
    s.SyncAll();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// Stages pass activations down and gradients back up. Stage 1 does its two transfers with stage 2
// in the wrong order when `swapped`.
void Pipeline(Rank& rank, bool swapped) {
  Scene s(rank);
  ncclComm_t comm = s.Warm(0);
  s.WarmPeers(comm);
  float* data = s.buffer.As<float>();
  auto send = [&](int to) { REQUIRE_NCCL(ncclSend(data, 4, ncclFloat, to, comm, s.first)); };
  auto recv = [&](int from) { REQUIRE_NCCL(ncclRecv(data, 4, ncclFloat, from, comm, s.first)); };
  switch (rank.rank()) {
    case 0:
      send(1);
      recv(1);
      break;
    case 1:
      recv(0);
      if (swapped) recv(2);
      send(2);
      if (!swapped) recv(2);
      send(0);
      break;
    default:
      recv(1);
      send(1);
  }
  rank.Mark(1);
  s.SyncAll();
}

TEST(TruthTable, PipelineWithASwappedStageHangs) {
  Outcome outcome = RunJob(3, [](Rank& rank) { Pipeline(rank, true); });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1, 1}));
}

TEST(TruthTable, PipelineInOrderCompletes) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) { Pipeline(rank, false); }).Succeeded());
}

TEST(TruthTable, OppositeEventWaitsHang) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t a = s.Warm(0), b = s.Warm(1);
    CUevent event = nullptr;
    REQUIRE_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    s.AllReduce(rank.rank() == 0 ? a : b, s.first);
    REQUIRE_CUDA(cuEventRecord(event, s.first));
    REQUIRE_CUDA(cuStreamWaitEvent(s.second, event, 0));
    s.AllReduce(rank.rank() == 0 ? b : a, s.second);
    rank.Mark(1);
    s.SyncAll();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

TEST(TruthTable, DifferentInitOrderHangsInInit) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    rank.Init(rank.rank());
    rank.Mark(1);
    rank.Init(1 - rank.rank());
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{0, 0}));
}

TEST(TruthTable, OneCollectiveMoreHangs) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t comm = s.Warm(0);
    s.AllReduce(comm, s.first);
    if (rank.rank() == 1) s.AllReduce(comm, s.first);
    rank.Mark(1);
    s.SyncAll();
    rank.Mark(2);
    rank.Barrier();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 1}));
}

void SendSend(Rank& rank) {
  constexpr size_t kCount = 16 << 20;  // 64 MiB
  Scene s(rank);
  Buffer out(kCount * sizeof(float)), in(kCount * sizeof(float));
  std::vector<float> values(kCount, static_cast<float>(rank.rank() + 1));
  out.Write(values);
  ncclComm_t comm = s.Warm(0);
  s.WarmPeers(comm);
  int peer = 1 - rank.rank();
  REQUIRE_NCCL(ncclSend(out.As<float>(), kCount, ncclFloat, peer, comm, s.first));
  REQUIRE_NCCL(ncclRecv(in.As<float>(), kCount, ncclFloat, peer, comm, s.first));
  rank.Mark(1);
  s.SyncAll();
  REQUIRE(in.Read<float>(1, kCount - 1)[0] == static_cast<float>(peer + 1));
}

TEST(TruthTable, SendSendIsBufferedOverNvlink) { EXPECT_TRUE(RunJob(2, SendSend).Succeeded()); }

TEST(TruthTable, SendSendHangsWithoutPeerToPeer) {
  Outcome outcome = RunJob(2, SendSend, {{"NCCL_P2P_DISABLE", "1"}});
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

TEST(TruthTable, BufferSizeDecidesAboutSendSend) {
  EXPECT_TRUE(RunJob(2, SendSend, {{"GORDIAN_EMU_P2P_BUFFER", "67108863"}}).hung);
  EXPECT_TRUE(RunJob(2, SendSend, {{"GORDIAN_EMU_P2P_BUFFER", "67108864"}}).Succeeded());
}

void ColdInversion(Rank& rank) {
  Scene s(rank);
  ncclComm_t a = rank.Init(0), b = rank.Init(1);
  s.AllReduce(rank.rank() == 0 ? a : b, s.first);
  rank.Mark(1);
  s.AllReduce(rank.rank() == 0 ? b : a, s.second);
  s.SyncAll();
}

TEST(TruthTable, ColdInversionHangsOnTheHost) {
  Outcome outcome = RunJob(2, ColdInversion);
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{0, 0}));  // inside the first calls
}

TEST(TruthTable, ColdInversionCompletesWhenConnectedAtInit) {
  EXPECT_TRUE(RunJob(2, ColdInversion, {{"NCCL_RUNTIME_CONNECT", "0"}}).Succeeded());
  EXPECT_TRUE(RunJob(2, ColdInversion, {{"NCCL_CUMEM_ENABLE", "0"}}).Succeeded());
}

// First use of a peer: the two sends are taken for each other's answer, and nothing comes through.
TEST(TruthTable, ColdSendSendHangsOnTheDevice) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t comm = s.Warm(0);
    int peer = 1 - rank.rank();
    REQUIRE_NCCL(ncclSend(s.buffer.As<float>(), 1, ncclFloat, peer, comm, s.first));
    rank.Mark(1);
    REQUIRE_NCCL(ncclRecv(s.buffer.As<float>(), 1, ncclFloat, peer, comm, s.first));
    rank.Mark(2);
    s.SyncAll();
    rank.Mark(3);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 2}));
}

// Ranks that are not half of all ranks apart tell sends from receives: each waits for its answer.
TEST(TruthTable, ColdSendRingOfThreeHangsOnTheHost) {
  Outcome outcome = RunJob(3, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t comm = s.Warm(0);
    REQUIRE_NCCL(
        ncclSend(s.buffer.As<float>(), 1, ncclFloat, (rank.rank() + 1) % 3, comm, s.first));
    rank.Mark(1);
    REQUIRE_NCCL(
        ncclRecv(s.buffer.As<float>(), 1, ncclFloat, (rank.rank() + 2) % 3, comm, s.first));
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{0, 0, 0}));
}

class PushTest : public testing::TestWithParam<size_t> {};

// The broadcast's root and the reduction's leaf do not wait for the others.
TEST_P(PushTest, BroadcastRootFinishesAlone) {
  size_t count = GetParam() / sizeof(float);
  EXPECT_TRUE(RunJob(2, [&](Rank& rank) {
                Scene s(rank, std::max(count, kFloats));
                ncclComm_t a = s.Warm(0), b = s.Warm(1);
                float* data = s.buffer.As<float>();
                if (rank.rank() == 1) s.AllReduce(b, s.first, count);
                REQUIRE_NCCL(ncclBroadcast(data, data, count, ncclFloat, 0, a, s.first));
                if (rank.rank() == 0) s.AllReduce(b, s.first, count);
                s.SyncAll();
              }).Succeeded());
}

TEST_P(PushTest, ReduceLeafFinishesAlone) {
  size_t count = GetParam() / sizeof(float);
  EXPECT_TRUE(RunJob(2, [&](Rank& rank) {
                Scene s(rank, std::max(count, kFloats));
                ncclComm_t a = s.Warm(0), b = s.Warm(1);
                float* data = s.buffer.As<float>();
                if (rank.rank() == 1) s.AllReduce(b, s.first, count);
                REQUIRE_NCCL(ncclReduce(data, data, count, ncclFloat, ncclSum, 1, a, s.first));
                if (rank.rank() == 0) s.AllReduce(b, s.first, count);
                s.SyncAll();
              }).Succeeded());
}

INSTANTIATE_TEST_SUITE_P(Sizes, PushTest, testing::Values(8, 1 << 20, 64 << 20));

// And the other way round they do: a receiver waits for the root, a root for its leaves.
TEST(TruthTable, BroadcastReceiverWaits) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    Scene s(rank);
    ncclComm_t a = s.Warm(0), b = s.Warm(1);
    float* data = s.buffer.As<float>();
    if (rank.rank() == 1) s.AllReduce(b, s.first);
    REQUIRE_NCCL(ncclBroadcast(data, data, 4, ncclFloat, 1, a, s.first));
    if (rank.rank() == 0) s.AllReduce(b, s.first);
    rank.Mark(1);
    s.SyncAll();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// The mismatch table. What: which argument differs. Expected: how many of two ranks finish.
enum class Differs { kCount, kRoot, kOperator, kKind, kType };
struct Cell {
  const char* name;
  Differs what;
  size_t floats;
  int finished;
};

class MismatchTest : public testing::TestWithParam<Cell> {};

TEST_P(MismatchTest, AsMeasured) {
  const Cell& cell = GetParam();
  Outcome outcome = RunJob(2, [&](Rank& rank) {
    // Room for an all-gather of `floats`; both in and out are inside, apart from each other.
    bool gathers = cell.what == Differs::kKind && rank.rank() == 0;
    Scene s(rank, cell.floats * (gathers ? 3 : 1));
    ncclComm_t comm = s.Warm(0);
    float* data = s.buffer.As<float>();
    bool odd = rank.rank() == 1;
    size_t count = cell.floats;
    switch (cell.what) {
      case Differs::kCount:
        REQUIRE_NCCL(
            ncclAllReduce(data, data, odd ? count / 2 : count, ncclFloat, ncclSum, comm, s.first));
        break;
      case Differs::kRoot:
        REQUIRE_NCCL(ncclBroadcast(data, data, count, ncclFloat, odd ? 1 : 0, comm, s.first));
        break;
      case Differs::kOperator:
        REQUIRE_NCCL(
            ncclAllReduce(data, data, count, ncclFloat, odd ? ncclMax : ncclSum, comm, s.first));
        break;
      case Differs::kKind:
        if (odd) {
          REQUIRE_NCCL(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, s.first));
        } else {
          REQUIRE_NCCL(ncclAllGather(data, data + count, count, ncclFloat, comm, s.first));
        }
        break;
      case Differs::kType:
        REQUIRE_NCCL(
            ncclAllReduce(data, data, count, odd ? ncclHalf : ncclFloat, ncclSum, comm, s.first));
        break;
    }
    rank.Mark(1);
    Synchronize(s.first);
    rank.Mark(2);
  });
  int finished = 0;
  for (uint32_t mark : outcome.marks) {
    EXPECT_GE(mark, 1u);
    finished += mark == 2 ? 1 : 0;
  }
  EXPECT_EQ(finished, cell.finished);
  EXPECT_EQ(outcome.hung, cell.finished < 2);
}

constexpr size_t kSmall = 1 << 10, kMedium = 1 << 20, kLarge = 32 << 20;
INSTANTIATE_TEST_SUITE_P(Table, MismatchTest,
                         testing::Values(Cell{"CountSmall", Differs::kCount, kSmall, 1},
                                         Cell{"CountMedium", Differs::kCount, kMedium, 2},
                                         Cell{"CountLarge", Differs::kCount, kLarge, 1},
                                         Cell{"RootSmall", Differs::kRoot, kSmall, 2},
                                         Cell{"RootMedium", Differs::kRoot, kMedium, 2},
                                         Cell{"RootLarge", Differs::kRoot, kLarge, 0},
                                         Cell{"OperatorSmall", Differs::kOperator, kSmall, 2},
                                         Cell{"OperatorMedium", Differs::kOperator, kMedium, 2},
                                         Cell{"OperatorLarge", Differs::kOperator, kLarge, 2},
                                         Cell{"KindSmall", Differs::kKind, kSmall, 0},
                                         Cell{"KindMedium", Differs::kKind, kMedium, 1},
                                         Cell{"KindLarge", Differs::kKind, kLarge, 1},
                                         Cell{"TypeSmall", Differs::kType, kSmall, 1},
                                         Cell{"TypeMedium", Differs::kType, kMedium, 2},
                                         Cell{"TypeLarge", Differs::kType, kLarge, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gordian::emu::test
