// RMA: puts, signals, and waits for them, as NCCL 2.30.7 does on H100s.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "emulator/nccl/api/nccl_header.h"
#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

constexpr size_t kFloats = 256;

struct Window {
  float* memory = nullptr;
  ncclWindow_t handle = nullptr;

  explicit Window(ncclComm_t comm) {
    void* found = nullptr;
    REQUIRE_NCCL(ncclMemAlloc(&found, kFloats * sizeof(float)));
    memory = static_cast<float*>(found);
    REQUIRE_CUDA(cuMemsetD32(reinterpret_cast<CUdeviceptr>(memory), 0, kFloats));
    REQUIRE_NCCL(ncclCommWindowRegister(comm, memory, kFloats * sizeof(float), &handle,
                                        NCCL_WIN_COLL_SYMMETRIC));
  }
  void Fill(float value) const {
    const std::vector<float> values(kFloats, value);
    REQUIRE_CUDA(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(memory), values.data(),
                              values.size() * sizeof(float)));
  }
  float At(size_t index) const {
    float value = 0;
    REQUIRE_CUDA(cuMemcpyDtoH(&value, reinterpret_cast<CUdeviceptr>(memory + index), sizeof value));
    return value;
  }
};

ncclResult_t Put(const Window& from, size_t count, int peer, const Window& window, size_t at,
                 ncclComm_t comm, cudaStream_t stream) {
  return ncclPutSignal(from.memory, count, ncclFloat, peer, window.handle, at * sizeof(float), 0, 0,
                       0, comm, stream);
}

ncclResult_t Wait(int count, int peer, ncclComm_t comm, cudaStream_t stream) {
  ncclWaitSignalDesc_t one = {count, peer, 0, 0};
  return ncclWaitSignal(1, &one, comm, stream);
}

TEST(Rma, APutIsThereWhenItsSignalHasCome) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    cudaStream_t stream = MakeStream();
    Window window(comm), source(comm);
    const int peer = 1 - rank.rank();
    for (int round = 1; round <= 20; ++round) {
      const float mine = static_cast<float>(100 * round + rank.rank());
      source.Fill(mine);
      REQUIRE_NCCL(Put(source, kFloats / 2, peer, window, kFloats / 2, comm, stream));
      REQUIRE_NCCL(Wait(1, peer, comm, stream));
      Synchronize(stream);
      REQUIRE(window.At(kFloats / 2) == static_cast<float>(100 * round + peer));
      REQUIRE(window.At(kFloats - 1) == static_cast<float>(100 * round + peer));
      REQUIRE(window.At(kFloats / 2 - 1) == 0);
      rank.Barrier();  // nobody puts before the other has looked
    }
    REQUIRE_NCCL(ncclCommWindowDeregister(comm, window.handle));
    REQUIRE_NCCL(ncclCommDestroy(comm));
  });
  EXPECT_TRUE(outcome.Succeeded());
}

TEST(Rma, ThreeSignalsAreNotFour) {
  for (const int sent : {3, 4}) {
    Outcome outcome = RunJob(2, [sent](Rank& rank) {
      ncclComm_t comm = rank.Init();
      cudaStream_t stream = MakeStream();
      if (rank.rank() == 1) {
        for (int i = 0; i < sent; ++i) REQUIRE_NCCL(ncclSignal(0, 0, 0, 0, comm, stream));
      } else {
        REQUIRE_NCCL(Wait(2, 1, comm, stream));
        REQUIRE_NCCL(Wait(2, 1, comm, stream));  // uses up the others
      }
      Synchronize(stream);
    });
    EXPECT_EQ(outcome.hung, sent == 3);
    EXPECT_EQ(outcome.Succeeded(), sent == 4);
  }
}

// A signal of another peer is none of those that are missing.
TEST(Rma, EachPeersSignalsCountForThemselves) {
  for (const bool right : {false, true}) {
    Outcome outcome = RunJob(3, [right](Rank& rank) {
      ncclComm_t comm = rank.Init();
      cudaStream_t stream = MakeStream();
      if (rank.rank() == 0) {
        ncclWaitSignalDesc_t all[] = {{1, 1, 0, 0}, {1, 2, 0, 0}, {1, 1, 0, 0}};
        REQUIRE_NCCL(ncclWaitSignal(3, all, comm, stream));
      } else {
        REQUIRE_NCCL(ncclSignal(0, 0, 0, 0, comm, stream));
        if (rank.rank() == (right ? 1 : 2)) REQUIRE_NCCL(ncclSignal(0, 0, 0, 0, comm, stream));
      }
      Synchronize(stream);
    });
    EXPECT_EQ(outcome.hung, !right);
  }
}

// The signal stands behind the wait on its communicator, whatever the streams.
TEST(Rma, SignalsHaveTheirTurnOnTheirCommunicator) {
  for (const bool apart : {false, true}) {
    Outcome outcome = RunJob(2, [apart](Rank& rank) {
      ncclComm_t comm = rank.Init(), other = rank.Init(1);
      cudaStream_t waits = MakeStream(), signals = MakeStream();
      if (apart && rank.rank() == 1) {
        REQUIRE_NCCL(ncclSignal(0, 0, 0, 0, comm, signals));
        REQUIRE_NCCL(Wait(1, 0, comm, waits));
      } else {
        REQUIRE_NCCL(Wait(1, 1 - rank.rank(), comm, waits));
        REQUIRE_NCCL(ncclSignal(1 - rank.rank(), 0, 0, 0, comm, signals));
      }
      REQUIRE_NCCL(ncclSignal(1 - rank.rank(), 0, 0, 0, other, signals));
      Synchronize(waits);
      Synchronize(signals);  // a rank that ends before its signal left would keep the other waiting
    });
    EXPECT_EQ(outcome.hung, !apart);
  }
}

TEST(Rma, TheFirstCallWaitsForThoseOfTheOthers) {
  for (const bool first_use : {false, true}) {
    Outcome outcome = RunJob(2, [first_use](Rank& rank) {
      ncclComm_t comm = rank.Init();
      cudaStream_t stream = MakeStream();
      const int peer = 1 - rank.rank();
      if (!first_use) {
        REQUIRE_NCCL(ncclSignal(peer, 0, 0, 0, comm, stream));
        REQUIRE_NCCL(Wait(1, peer, comm, stream));
      }
      if (rank.rank() == 0) REQUIRE_NCCL(ncclSignal(peer, 0, 0, 0, comm, stream));
      rank.Barrier();
      if (rank.rank() == 1) REQUIRE_NCCL(Wait(1, peer, comm, stream));
      Synchronize(stream);
    });
    EXPECT_EQ(outcome.hung, first_use);
  }
}

// A group's RMA calls run in their order, and before its collectives.
TEST(Rma, AGroupKeepsTheOrderOfItsCalls) {
  for (const bool wait_first : {false, true}) {
    Outcome outcome = RunJob(2, [wait_first](Rank& rank) {
      ncclComm_t comm = rank.Init();
      cudaStream_t stream = MakeStream();
      Buffer data(kFloats * sizeof(float));
      data.Write<float>(std::vector<float>(kFloats, 1));
      const int peer = 1 - rank.rank();
      REQUIRE_NCCL(ncclGroupStart());
      REQUIRE_NCCL(ncclAllReduce(data.As<float>(), data.As<float>(), kFloats, ncclFloat, ncclSum,
                                 comm, stream));
      if (wait_first) REQUIRE_NCCL(Wait(1, peer, comm, stream));
      REQUIRE_NCCL(ncclSignal(peer, 0, 0, 0, comm, stream));
      if (!wait_first) REQUIRE_NCCL(Wait(1, peer, comm, stream));
      REQUIRE_NCCL(ncclGroupEnd());
      Synchronize(stream);
      REQUIRE(data.Read<float>(1)[0] == 2);
    });
    EXPECT_EQ(outcome.hung, wait_first);
  }
}

TEST(Rma, AGroupThatFailsSendsNothing) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    cudaStream_t stream = MakeStream();
    const int peer = 1 - rank.rank();
    REQUIRE_NCCL(ncclSignal(peer, 0, 0, 0, comm, stream));
    REQUIRE_NCCL(Wait(1, peer, comm, stream));
    if (rank.rank() == 0) {
      REQUIRE_NCCL(ncclGroupStart());
      REQUIRE_NCCL(ncclSignal(1, 0, 0, 0, comm, stream));
      REQUIRE(ncclSignal(7, 0, 0, 0, comm, stream) == ncclInvalidArgument);
      REQUIRE(ncclGroupEnd() == ncclInvalidArgument);
    } else {
      REQUIRE_NCCL(Wait(1, 0, comm, stream));
    }
    rank.Barrier();
    if (rank.rank() == 1) REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    rank.Barrier();
    if (rank.rank() == 0) {
      cudaStream_t other = MakeStream();
      REQUIRE_NCCL(ncclSignal(1, 0, 0, 0, comm, other));
      Synchronize(other);  // a rank that ends sends nothing more
    }
    Synchronize(stream);
  });
  EXPECT_TRUE(outcome.Succeeded());
}

TEST(Rma, WhatIsRefused) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    cudaStream_t stream = MakeStream();
    Window window(comm), source(comm);
    Buffer elsewhere(kFloats * sizeof(float));
    const int peer = 1 - rank.rank();
    REQUIRE(Put(source, kFloats, peer, window, 1, comm, stream) ==
            ncclInvalidArgument);  // beyond its end
    REQUIRE(ncclPutSignal(source.memory, 1, ncclFloat, peer, nullptr, 0, 0, 0, 0, comm, stream) ==
            ncclInvalidArgument);
    REQUIRE(ncclPutSignal(elsewhere.As<float>(), 1, ncclFloat, peer, window.handle, 0, 0, 0, 0,
                          comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclPutSignal(&stream, 1, ncclFloat, peer, window.handle, 0, 0, 0, 0, comm, stream) ==
            ncclInvalidArgument);
    REQUIRE(ncclSignal(2, 0, 0, 0, comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclSignal(peer, 1, 0, 0, comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclSignal(peer, 0, 1, 0, comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclSignal(peer, 0, 0, 1, comm, stream) == ncclInvalidArgument);
    REQUIRE(Wait(0, peer, comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclWaitSignal(1, nullptr, comm, stream) == ncclInvalidArgument);
    REQUIRE(ncclSignal(peer, 0, 0, 0, nullptr, stream) == ncclInvalidArgument);
    REQUIRE_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    REQUIRE(ncclSignal(peer, 0, 0, 0, comm, stream) == ncclInvalidUsage);
    CUgraph graph = nullptr;
    REQUIRE_CUDA(cuStreamEndCapture(stream, &graph));
  });
  EXPECT_TRUE(outcome.Succeeded());
}

TEST(Rma, AbortEndsAWaitAndDestroyWaitsForIt) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    ncclComm_t comm = rank.Init(), other = rank.Init(1);
    cudaStream_t stream = MakeStream();
    for (ncclComm_t each : {comm, other}) {
      REQUIRE_NCCL(ncclSignal(1 - rank.rank(), 0, 0, 0, each, stream));
      REQUIRE_NCCL(Wait(1, 1 - rank.rank(), each, stream));
    }
    Synchronize(stream);
    rank.Barrier();
    if (rank.rank() == 0) {
      REQUIRE_NCCL(Wait(1, 1, comm, stream));
      REQUIRE_NCCL(ncclCommAbort(comm));
      Synchronize(stream);
      REQUIRE_NCCL(Wait(1, 1, other, stream));
      rank.Barrier();
      REQUIRE_NCCL(ncclCommFinalize(other));
      REQUIRE(cuStreamQuery(stream) == CUDA_SUCCESS);
    } else {
      rank.Barrier();
      REQUIRE_NCCL(ncclSignal(0, 0, 0, 0, other, stream));
      Synchronize(stream);
    }
  });
  EXPECT_TRUE(outcome.Succeeded());
}

// Two members in one process, and a signal to oneself.
TEST(Rma, WithinOneProcess) {
  Outcome outcome = RunJob(1, [](Rank& rank) {
    auto member = [&](int which) {
      rank.UseDevice(which);
      ncclComm_t comm = rank.Init(0, 2, which);
      cudaStream_t stream = MakeStream();
      Window window(comm), source(comm);
      source.Fill(static_cast<float>(1 + which));
      REQUIRE_NCCL(Put(source, kFloats, 1 - which, window, 0, comm, stream));
      REQUIRE_NCCL(Wait(1, 1 - which, comm, stream));
      Synchronize(stream);
      REQUIRE(window.At(kFloats - 1) == static_cast<float>(2 - which));
      REQUIRE_NCCL(Put(source, 1, which, window, 0, comm, stream));
      REQUIRE_NCCL(Wait(1, which, comm, stream));
      Synchronize(stream);
      REQUIRE(window.At(0) == static_cast<float>(1 + which));
    };
    std::thread second([&] { member(1); });
    member(0);
    second.join();
  });
  EXPECT_TRUE(outcome.Succeeded());
}

}  // namespace
}  // namespace gordian::emu::test
