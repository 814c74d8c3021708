// Life of communicators: init in all its forms, split, shrink, finalize, destroy, abort, revoke,
// and what is left behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

// The sum of `value` over all members.
int Sum(ncclComm_t comm, int value) {
  cudaStream_t stream = MakeStream();
  Buffer buffer(sizeof(int));
  buffer.Write<int>({value});
  REQUIRE_NCCL(
      ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, ncclSum, comm, stream));
  Synchronize(stream);
  return buffer.Read<int>(1)[0];
}

int Ask(ncclResult_t (*question)(const ncclComm_t, int*), ncclComm_t comm) {
  int answer = -1;
  REQUIRE_NCCL(question(comm, &answer));
  return answer;
}

ncclResult_t AwaitState(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    REQUIRE_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

TEST(Communicators, KnowThemselves) {
  Outcome outcome = RunJob(3, [](Rank& rank) {
    rank.UseDevice(rank.rank() + 2);
    ncclComm_t comm = rank.Init();
    REQUIRE(Ask(ncclCommCount, comm) == 3);
    REQUIRE(Ask(ncclCommUserRank, comm) == rank.rank());
    REQUIRE(Ask(ncclCommCuDevice, comm) == rank.rank() + 2);
    REQUIRE(AwaitState(comm) == ncclSuccess);
    REQUIRE_NCCL(ncclCommFinalize(comm));
    REQUIRE_NCCL(ncclCommDestroy(comm));
  });
  EXPECT_TRUE(outcome.Succeeded());
  EXPECT_TRUE(outcome.left.empty());
}

// Two processes, two threads each: members of one communicator side by side and apart.
TEST(Communicators, ThreadsAndProcessesMixed) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    auto member = [&](int which) {
      int member_rank = rank.rank() * 2 + which;
      rank.UseDevice(member_rank);
      ncclComm_t comm = rank.Init(0, 4, member_rank);
      for (int i = 0; i < 20; ++i) REQUIRE(Sum(comm, 1 << member_rank) == 15);
      REQUIRE_NCCL(ncclCommDestroy(comm));
    };
    std::thread second(member, 1);
    member(0);
    second.join();
  });
  EXPECT_TRUE(outcome.Succeeded());
}

TEST(Communicators, InitInsideAGroup) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                ncclComm_t comms[3] = {};
                REQUIRE_NCCL(ncclGroupStart());
                for (int r = 0; r < 3; ++r) {
                  rank.UseDevice(r);
                  REQUIRE_NCCL(ncclCommInitRank(&comms[r], 3, rank.Id(0), r));
                }
                REQUIRE_NCCL(ncclGroupEnd());
                for (int r = 0; r < 3; ++r) REQUIRE(Ask(ncclCommUserRank, comms[r]) == r);
                for (int r = 0; r < 3; ++r) REQUIRE(Ask(ncclCommCuDevice, comms[r]) == r);
                REQUIRE_NCCL(ncclGroupStart());
                for (ncclComm_t comm : comms) REQUIRE_NCCL(ncclCommFinalize(comm));
                REQUIRE_NCCL(ncclGroupEnd());
                for (ncclComm_t comm : comms) REQUIRE_NCCL(ncclCommDestroy(comm));
              }).Succeeded());
}

TEST(Communicators, ScalableInitWithOneId) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclUniqueId ids[2] = {rank.Id(0), rank.Id(1)};
                ncclComm_t comm = nullptr;
                REQUIRE_NCCL(ncclCommInitRankScalable(&comm, 2, rank.rank(), 2, ids, nullptr));
                REQUIRE(Sum(comm, rank.rank() + 1) == 3);
              }).Succeeded());
}

TEST(Communicators, InitWithAMissingRankHangsAndIsSweptLater) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    if (rank.rank() == 1) rank.WaitForExitOf(0);
    rank.Init();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.left.size(), 1u);
  // SIGKILL: nobody could tidy up. The next job does.
  EXPECT_TRUE(RunJob(2, [](Rank& rank) { rank.Init(); }).Succeeded());
  EXPECT_TRUE(RendezvousFiles(outcome.pids).empty());
}

TEST(Communicators, OrderlyExitDuringInitTidiesUp) {
  Outcome outcome = RunJob(1, [](Rank& rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRankConfig(&comm, 2, rank.Id(0), 0, &config) == ncclInProgress);
    while (RendezvousFiles({getpid()}).empty()) std::this_thread::yield();
    REQUIRE_NCCL(ncclCommAbort(comm));
  });
  EXPECT_TRUE(outcome.Succeeded());
  EXPECT_TRUE(outcome.left.empty());
}

TEST(Communicators, KilledMemberLeavesNothing) {
  Outcome outcome = RunJob(
      2,
      [](Rank& rank) {
        ncclComm_t comm = rank.Init();
        REQUIRE(Sum(comm, 1) == 2);
        rank.Mark(1);
        if (rank.rank() == 1) pause();
        Sum(comm, 1);
      },
      {}, 1, [](const std::vector<pid_t>& pids) { kill(pids[1], SIGKILL); });
  EXPECT_TRUE(outcome.hung);  // the other one waits for ever
  EXPECT_TRUE(outcome.left.empty());
}

// Colours 0 and 1 by parity, ordered by descending rank; rank 4 stays out.
TEST(Split, ColoursKeysAndNoColour) {
  Outcome outcome = RunJob(5, [](Rank& rank) {
    ncclComm_t world = rank.Init(), part = reinterpret_cast<ncclComm_t>(1);
    int color = rank.rank() == 4 ? NCCL_SPLIT_NOCOLOR : rank.rank() % 2;
    REQUIRE_NCCL(ncclCommSplit(world, color, -rank.rank(), &part, nullptr));
    if (rank.rank() == 4) {
      REQUIRE(part == nullptr);
    } else {
      REQUIRE(Ask(ncclCommCount, part) == 2);
      REQUIRE(Ask(ncclCommUserRank, part) == (rank.rank() < 2 ? 1 : 0));
      REQUIRE(Sum(part, 1 << rank.rank()) == (color == 0 ? 5 : 10));
    }
    REQUIRE(Sum(world, 1) == 5);
    // Twice more, in one group.
    ncclComm_t again[2] = {};
    REQUIRE_NCCL(ncclGroupStart());
    for (ncclComm_t& comm : again) REQUIRE_NCCL(ncclCommSplit(world, 0, 0, &comm, nullptr));
    REQUIRE_NCCL(ncclGroupEnd());
    for (ncclComm_t comm : again) REQUIRE(Ask(ncclCommUserRank, comm) == rank.rank());
    for (ncclComm_t comm : again) REQUIRE(Sum(comm, 2) == 10);
  });
  EXPECT_TRUE(outcome.Succeeded());
  EXPECT_TRUE(outcome.left.empty());
}

TEST(Split, IsCollectiveOverTheParent) {
  Outcome outcome = RunJob(3, [](Rank& rank) {
    ncclComm_t world = rank.Init(), part = nullptr;
    if (rank.rank() == 2) pause();
    rank.Mark(1);
    // Not even a colour that the missing rank has no part in.
    REQUIRE_NCCL(ncclCommSplit(world, rank.rank(), 0, &part, nullptr));
    rank.Mark(2);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1, 0}));
}

TEST(Shrink, WithoutADeadRank) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) {
                ncclComm_t world = rank.Init(), rest = nullptr;
                REQUIRE(Sum(world, 1) == 3);
                int exclude[] = {1};
                if (rank.rank() == 1) return;
                REQUIRE_NCCL(ncclCommShrink(world, exclude, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
                REQUIRE(Ask(ncclCommCount, rest) == 2);
                REQUIRE(Ask(ncclCommUserRank, rest) == rank.rank() / 2);
                REQUIRE(Sum(rest, 5) == 10);
              }).Succeeded());
}

TEST(Finalize, WaitsForOwnOperationsOnly) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    rank.Mark(1);
    if (rank.rank() == 1) pause();
    ncclCommFinalize(comm);
    rank.Mark(2);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 1}));
}

TEST(Destroy, WaitsForTheOthers) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    REQUIRE(Sum(comm, 1) == 2);
    rank.Mark(1);
    if (rank.rank() == 1) pause();
    ncclCommDestroy(comm);
    rank.Mark(2);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

TEST(Destroy, WaitsForNobodyUnconnected) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    rank.Mark(1);
    if (rank.rank() == 1) pause();
    ncclCommDestroy(comm);
    rank.Mark(2);
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 1}));
}

TEST(Destroy, WaitsForOwnOperations) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    REQUIRE(Sum(comm, 1) == 2);
    Buffer buffer(4);
    if (rank.rank() == 0) {
      REQUIRE_NCCL(
          ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, ncclSum, comm, nullptr));
    }
    rank.Mark(1);
    ncclCommDestroy(comm);
    rank.Mark(2);
    rank.Barrier();
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

// A communicator that was aborted, or whose process ends, is not waited for.
TEST(Destroy, DoesNotWaitForThoseThatLeft) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                REQUIRE(Sum(comm, 1) == 3);
                if (rank.rank() == 1) REQUIRE_NCCL(ncclCommAbort(comm));
                if (rank.rank() == 2) exit(0);
                if (rank.rank() == 0) REQUIRE_NCCL(ncclCommDestroy(comm));
              }).Succeeded());
}

// In a group the order does not matter.
TEST(Destroy, OppositeOrderInAGroup) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t one = rank.Init(0), two = rank.Init(1);
                REQUIRE_NCCL(ncclGroupStart());
                REQUIRE_NCCL(ncclCommDestroy(rank.rank() == 0 ? one : two));
                REQUIRE_NCCL(ncclCommDestroy(rank.rank() == 0 ? two : one));
                REQUIRE_NCCL(ncclGroupEnd());
              }).Succeeded());
}

// The aborting rank gets away, its peer does not notice.
TEST(Abort, CancelsOwnOperationsOnly) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    REQUIRE(Sum(comm, 1) == 2);
    cudaStream_t stream = MakeStream();
    Buffer in(4), out(8);
    if (rank.rank() == 0) {
      REQUIRE_NCCL(ncclAllReduce(in.As<int>(), out.As<int>(), 1, ncclInt, ncclSum, comm, stream));
      REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
      REQUIRE_NCCL(ncclCommAbort(comm));
      Synchronize(stream);
      rank.Mark(2);
      int count = 0;
      REQUIRE(ncclCommCount(comm, &count) == ncclInvalidArgument);
      rank.Barrier();
    } else {
      rank.Barrier();
      REQUIRE_NCCL(ncclAllGather(in.As<int>(), out.As<int>(), 1, ncclInt, comm, stream));
      REQUIRE_NCCL(ncclAllGather(in.As<int>(), out.As<int>(), 1, ncclInt, comm, stream));
      rank.Mark(1);
      Synchronize(stream);
      rank.Mark(2);
    }
  });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{2, 1}));
}

TEST(Abort, EndsAThreadThatConnects) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                if (rank.rank() == 1) {
                  rank.Barrier();
                  return;
                }
                Buffer buffer(4);
                std::thread caller([&] {
                  rank.UseDevice(0);
                  REQUIRE(ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, ncclSum,
                                        comm, nullptr) != ncclSuccess);
                });
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(20));  // either order must work
                REQUIRE_NCCL(ncclCommAbort(comm));
                caller.join();
                rank.Barrier();
              }).Succeeded());
}

TEST(Revoke, StopsOperationsButNotSplits) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t comm = rank.Init(), next = nullptr;
                REQUIRE(Sum(comm, 1) == 2);
                cudaStream_t stream = MakeStream();
                Buffer buffer(4);
                int* data = buffer.As<int>();
                if (rank.rank() == 0) {
                  REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream));
                }
                REQUIRE(ncclCommRevoke(comm, 1) == ncclInvalidArgument);
                REQUIRE_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
                Synchronize(stream);
                REQUIRE(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) ==
                        ncclInvalidUsage);
                REQUIRE(ncclCommFinalize(comm) == ncclInvalidUsage);
                REQUIRE_NCCL(ncclCommSplit(comm, 0, 0, &next, nullptr));
                REQUIRE(Sum(next, 3) == 6);
                REQUIRE_NCCL(ncclCommDestroy(comm));
              }).Succeeded());
}

TEST(NonBlocking, EverythingIsInProgressFirst) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.blocking = 0;
                ncclComm_t comm = nullptr, part = nullptr;
                Buffer buffer(4);
                int* data = buffer.As<int>();
                cudaStream_t stream = MakeStream();
                if (rank.rank() == 1) rank.Barrier();
                REQUIRE(ncclCommInitRankConfig(&comm, 2, rank.Id(0), rank.rank(), &config) ==
                        ncclInProgress);
                REQUIRE(comm != nullptr);
                if (rank.rank() == 0) {
                  ncclResult_t state = ncclSuccess;
                  REQUIRE_NCCL(ncclCommGetAsyncError(comm, &state));
                  REQUIRE(state == ncclInProgress);  // the other one has not been let go
                  int count = 0;
                  REQUIRE(ncclCommCount(comm, &count) == ncclInvalidArgument);
                  REQUIRE(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) ==
                          ncclInvalidArgument);
                  rank.Barrier();
                }
                REQUIRE(AwaitState(comm) == ncclSuccess);
                REQUIRE(Ask(ncclCommCount, comm) == 2);
                buffer.Write<int>({21});
                for (int i = 0; i < 2; ++i) {  // cold, then warm
                  REQUIRE(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) ==
                          ncclInProgress);
                  REQUIRE(AwaitState(comm) == ncclSuccess);
                }
                REQUIRE_NCCL(ncclGroupStart());
                REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream));
                REQUIRE(ncclGroupEnd() == ncclInProgress);
                REQUIRE(AwaitState(comm) == ncclSuccess);
                Synchronize(stream);
                REQUIRE(buffer.Read<int>(1)[0] == 168);
                REQUIRE(ncclCommSplit(comm, 0, 0, &part, nullptr) == ncclInProgress);
                REQUIRE(AwaitState(part) == ncclSuccess);
                REQUIRE(Ask(ncclCommCount, part) == 2);
                REQUIRE(ncclCommFinalize(comm) == ncclInProgress);
                REQUIRE(AwaitState(comm) == ncclSuccess);
                REQUIRE_NCCL(ncclCommDestroy(comm));
              }).Succeeded());
}

}  // namespace
}  // namespace gordian::emu::test
