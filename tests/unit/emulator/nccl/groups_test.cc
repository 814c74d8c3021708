// Groups, and the order of operations on one communicator.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

// Both ways at once: without a group this would hang on the host.
TEST(Groups, ExchangeConnectsAllPeersAtOnce) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                cudaStream_t stream = MakeStream();
                Buffer out(12), in(12);
                out.Write<int>({rank.rank() * 10, rank.rank() * 10 + 1, rank.rank() * 10 + 2});
                REQUIRE_NCCL(ncclGroupStart());
                REQUIRE_NCCL(ncclGroupStart());
                for (int peer = 0; peer < 3; ++peer) {  // itself too
                  REQUIRE_NCCL(ncclRecv(in.As<int>() + peer, 1, ncclInt, peer, comm, stream));
                  REQUIRE_NCCL(ncclSend(out.As<int>() + peer, 1, ncclInt, peer, comm, stream));
                }
                REQUIRE_NCCL(ncclGroupEnd());
                REQUIRE(cuStreamQuery(stream) ==
                        CUDA_SUCCESS);  // nothing is launched before the outer end
                REQUIRE_NCCL(ncclGroupEnd());
                Synchronize(stream);
                auto got = in.Read<int>(3);
                for (int peer = 0; peer < 3; ++peer) REQUIRE(got[peer] == peer * 10 + rank.rank());
              }).Succeeded());
}

// Cold, opposite order inside the group: all wishes are published before any is waited for.
TEST(Groups, SeveralCommunicatorsInOppositeOrder) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t comms[2] = {rank.Init(0), rank.Init(1)};
                cudaStream_t stream = MakeStream();
                Buffer buffer(8);
                buffer.Write<int>({1, 1});
                for (int round = 0; round < 3; ++round) {
                  REQUIRE_NCCL(ncclGroupStart());
                  for (int i = 0; i < 2; ++i) {
                    int which = rank.rank() == 0 ? i : 1 - i;
                    int* data = buffer.As<int>() + which;
                    REQUIRE_NCCL(
                        ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms[which], stream));
                  }
                  REQUIRE_NCCL(ncclGroupEnd());
                }
                Synchronize(stream);
                REQUIRE(buffer.Read<int>(2) == (std::vector<int>{8, 8}));
              }).Succeeded());
}

// Operations of one communicator on two streams of one group are one kernel: it starts when both
// streams reach it. Rank 1's second stream is blocked by an operation that rank 0 calls afterwards
// on the stream that the group holds.
TEST(Groups, FusedOverStreams) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t a = rank.Init(0), b = rank.Init(1);
    cudaStream_t first = MakeStream(), second = MakeStream();
    Buffer buffer(64);
    int* data = buffer.As<int>();
    auto reduce = [&](ncclComm_t comm, int at, cudaStream_t stream) {
      REQUIRE_NCCL(ncclAllReduce(data + at, data + at, 1, ncclInt, ncclSum, comm, stream));
    };
    auto group = [&] {
      REQUIRE_NCCL(ncclGroupStart());
      reduce(a, 0, first);
      reduce(a, 1, second);
      REQUIRE_NCCL(ncclGroupEnd());
    };
    reduce(a, 2, first);
    reduce(b, 3, first);
    Synchronize(first);
    if (rank.rank() == 0) {
      group();
      reduce(b, 4, first);  // held up by the group's kernel
    } else {
      reduce(b, 4, second);
      group();
    }
    rank.Mark(1);
    REQUIRE_CUDA(cuCtxSynchronize());
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// NCCL serialises the operations of a communicator, whatever their streams: the receive of rank 0
// keeps its all-reduce back.
TEST(Order, OneCommunicatorIsSerialisedAcrossStreams) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    cudaStream_t first = MakeStream(), second = MakeStream();
    Buffer buffer(64);
    int* data = buffer.As<int>();
    auto reduce = [&] {
      REQUIRE_NCCL(ncclAllReduce(data + 1, data + 1, 1, ncclInt, ncclSum, comm, second));
    };
    auto move = [&] {
      REQUIRE_NCCL(rank.rank() == 0 ? ncclRecv(data, 1, ncclInt, 1, comm, first)
                                    : ncclSend(data, 1, ncclInt, 0, comm, first));
    };
    move();
    reduce();
    REQUIRE_CUDA(cuCtxSynchronize());
    if (rank.rank() == 0) {
      move();
      reduce();
      rank.Mark(1);
    } else {
      reduce();
      rank.Mark(1);
      Synchronize(second);
      move();
    }
    REQUIRE_CUDA(cuCtxSynchronize());
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// Seen from outside: a send of fewer bytes than the receive expects never satisfies it.
TEST(PointToPoint, ShortSendHangsItsReceive) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    cudaStream_t stream = MakeStream();
    Buffer buffer(64);
    int* data = buffer.As<int>();
    REQUIRE_NCCL(rank.rank() == 0 ? ncclSend(data, 3, ncclInt, 1, comm, stream)
                                  : ncclRecv(data, 4, ncclInt, 0, comm, stream));
    rank.Mark(1);
    Synchronize(stream);
    rank.Mark(2);
    rank.Barrier();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 1}));
}

}  // namespace
}  // namespace gordian::emu::test
