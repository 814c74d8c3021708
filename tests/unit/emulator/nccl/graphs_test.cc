// NCCL operations captured into CUDA graphs: they run at every launch, with what is in the buffers
// then, in the order of the launches.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

// A stream on which capture leaves the synchronous copies of Buffer alone.
CUstream NewStream() {
  CUstream stream = nullptr;
  REQUIRE_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

template <typename Body>
CUgraph Capture(CUstream stream, Body body) {
  REQUIRE_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  body();
  CUgraph graph = nullptr;
  REQUIRE_CUDA(cuStreamEndCapture(stream, &graph));
  return graph;
}

CUgraphExec Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  REQUIRE_CUDA(cuGraphInstantiate(&exec, graph, 0));
  return exec;
}

void AllReduce(int* data, ncclComm_t comm, CUstream stream) {
  REQUIRE_NCCL(
      ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, reinterpret_cast<cudaStream_t>(stream)));
}

TEST(NcclGraphs, RunAtEveryLaunchWithTheDataOfThen) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                CUstream stream = NewStream();
                Buffer data(4);
                data.Write<int>({1});
                CUgraph graph = Capture(stream, [&] { AllReduce(data.As<int>(), comm, stream); });
                REQUIRE_CUDA(cuStreamSynchronize(stream));
                REQUIRE(data.Read<int>(1)[0] == 1);  // captured, not run
                CUgraphExec exec = Instantiate(graph);
                for (int launch = 0; launch < 3; ++launch) {
                  REQUIRE_CUDA(cuGraphLaunch(exec, stream));
                }
                REQUIRE_CUDA(cuStreamSynchronize(stream));
                REQUIRE(data.Read<int>(1)[0] == 27);
                // In turn with an operation that is not in a graph.
                AllReduce(data.As<int>(), comm, stream);
                REQUIRE_CUDA(cuGraphLaunch(exec, stream));
                REQUIRE_CUDA(cuStreamSynchronize(stream));
                REQUIRE(data.Read<int>(1)[0] == 243);
                REQUIRE_CUDA(cuGraphExecDestroy(exec));
                REQUIRE_CUDA(cuGraphDestroy(graph));
                REQUIRE_NCCL(ncclCommDestroy(comm));
              }).Succeeded());
}

// More launches than there are slots for operations, of a group with sends and receives.
TEST(NcclGraphs, GroupOfSendsAndReceivesManyTimes) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                CUstream stream = NewStream();
                auto handle = reinterpret_cast<cudaStream_t>(stream);
                Buffer data(8);
                int* mine = data.As<int>();
                data.Write<int>({rank.rank(), -1});
                const int peer = 1 - rank.rank();
                CUgraph graph = Capture(stream, [&] {
                  REQUIRE_NCCL(ncclGroupStart());
                  REQUIRE_NCCL(ncclSend(mine, 1, ncclInt, peer, comm, handle));
                  REQUIRE_NCCL(ncclRecv(mine + 1, 1, ncclInt, peer, comm, handle));
                  REQUIRE_NCCL(ncclGroupEnd());
                  // What came is what goes next.
                  REQUIRE_CUDA(cuMemcpyDtoDAsync(data.pointer(), data.pointer() + 4, 4, stream));
                });
                size_t nodes = 0;
                REQUIRE_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
                REQUIRE(nodes == 2);
                CUgraphExec exec = Instantiate(graph);
                for (int launch = 0; launch < 301; ++launch) {
                  REQUIRE_CUDA(cuGraphLaunch(exec, stream));
                }
                REQUIRE_CUDA(cuStreamSynchronize(stream));
                REQUIRE(data.Read<int>(1)[0] == peer);
              }).Succeeded());
}

TEST(NcclGraphs, GroupOverTwoStreamsOfOneCapture) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                CUstream first = NewStream(), second = NewStream();
                CUevent fork = nullptr, join = nullptr;
                REQUIRE_CUDA(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
                REQUIRE_CUDA(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
                Buffer data(8);
                data.Write<int>({1, 10});
                CUgraph graph = Capture(first, [&] {
                  REQUIRE_CUDA(cuEventRecord(fork, first));
                  REQUIRE_CUDA(cuStreamWaitEvent(second, fork, 0));
                  REQUIRE_NCCL(ncclGroupStart());
                  AllReduce(data.As<int>(), comm, first);
                  AllReduce(data.As<int>() + 1, comm, second);
                  REQUIRE_NCCL(ncclGroupEnd());
                  REQUIRE_CUDA(cuEventRecord(join, second));
                  REQUIRE_CUDA(cuStreamWaitEvent(first, join, 0));
                });
                REQUIRE_CUDA(cuGraphLaunch(Instantiate(graph), first));
                REQUIRE_CUDA(cuStreamSynchronize(first));
                REQUIRE(data.Read<int>(2) == (std::vector<int>{2, 20}));
                // One stream in a capture and one not is a misuse.
                REQUIRE_CUDA(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
                REQUIRE_NCCL(ncclGroupStart());
                AllReduce(data.As<int>(), comm, first);
                AllReduce(data.As<int>() + 1, comm, second);
                REQUIRE(ncclGroupEnd() == ncclInvalidUsage);
                REQUIRE_CUDA(cuStreamEndCapture(first, &graph));
              }).Succeeded());
}

// The deadlock of two communicators used in opposite order, with the order of launches instead of
// the order of calls; the twin launches in the same order.
void LaunchTwoGraphs(Rank& rank, bool opposite) {
  ncclComm_t comms[2] = {rank.Init(0), rank.Init(1)};
  CUstream stream = NewStream();
  Buffer data(8);
  CUgraphExec execs[2];
  for (int i = 0; i < 2; ++i) {
    CUgraph graph = Capture(stream, [&] { AllReduce(data.As<int>() + i, comms[i], stream); });
    execs[i] = Instantiate(graph);
  }
  const bool swap = opposite && rank.rank() == 1;
  REQUIRE_CUDA(cuGraphLaunch(execs[swap ? 1 : 0], stream));
  REQUIRE_CUDA(cuGraphLaunch(execs[swap ? 0 : 1], stream));
  rank.Mark(1);
  REQUIRE_CUDA(cuStreamSynchronize(stream));
}

TEST(NcclGraphs, LaunchedInOppositeOrderHang) {
  Outcome outcome = RunJob(2, [](Rank& rank) { LaunchTwoGraphs(rank, true); });
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

TEST(NcclGraphs, LaunchedInTheSameOrderComplete) {
  EXPECT_TRUE(RunJob(2, [](Rank& rank) { LaunchTwoGraphs(rank, false); }).Succeeded());
}

// As real NCCL, whose destruction waits for the graphs that hold its kernels.
TEST(NcclGraphs, CommunicatorCannotBeDestroyedBeforeItsGraphs) {
  const auto job = [](bool first_the_graph) {
    return [first_the_graph](Rank& rank) {
      ncclComm_t comm = rank.Init();
      CUstream stream = NewStream();
      Buffer data(4);
      CUgraph graph = Capture(stream, [&] { AllReduce(data.As<int>(), comm, stream); });
      if (first_the_graph) REQUIRE_CUDA(cuGraphDestroy(graph));
      rank.Mark(1);
      REQUIRE_NCCL(ncclCommDestroy(comm));
    };
  };
  EXPECT_TRUE(RunJob(2, job(true)).Succeeded());
  Outcome outcome = RunJob(2, job(false));
  EXPECT_TRUE(outcome.hung);
  EXPECT_EQ(outcome.marks, (std::vector<uint32_t>{1, 1}));
}

}  // namespace
}  // namespace gordian::emu::test
