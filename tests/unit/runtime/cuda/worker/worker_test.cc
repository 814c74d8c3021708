// The resident worker on the host: orders that differ by rank, waits for the device in between,
// quits and new starts at any moment. What it cannot show is anything about the order of memory
// accesses; tests/unit/runtime/quit_model_test.cc does that for the protocol.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/unit/runtime/cuda/host_worker.h"

namespace gordian::runtime::cuda {
namespace {

TEST(WorkerTest, AnyOrderCompletes) {
  for (uint64_t seed = 1; seed <= Seeds(60); ++seed) {
    Job job;
    job.ranks = seed % 3 == 0 ? 3 : 2;
    job.blocks = 1 + seed % 4;
    job.policy = seed % 2 == 0 ? Policy::kReadyDriven : Policy::kSpinThreshold;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    EXPECT_GE(o.progress, o.operations);
  }
}

// DFCCL's second experiment: the whole device is waited for between operations in different orders.
TEST(WorkerTest, WaitsForTheDeviceEnd) {
  uint32_t instances = 0;
  for (uint64_t seed = 1; seed <= Seeds(40); ++seed) {
    Job job;
    job.ranks = seed % 3 == 0 ? 3 : 2;
    job.blocks = 1 + seed % 3;
    job.waits_for_device = true;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    instances += o.instances;
  }
  EXPECT_GT(instances, Seeds(40) * 2 * 3);  // it has quit while operations were unfinished
}

// What the voluntary quit is for.
TEST(WorkerTest, WithoutQuittingThoseWaitsDoNotEnd) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Job job;
    job.waits_for_device = true;
    job.timing.stuck_ns = INT64_MAX;
    hung += !RunJob(job, seed).finished;
  }
  EXPECT_GT(hung, 5u);
}

// A wait for the operation itself is the program's own.
TEST(WorkerTest, OppositeWaitsForOperationsDoNotEnd) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Job job;
    job.waits_for_each = true;
    job.only_all_reduce = true;
    hung += !RunJob(job, seed).finished;
  }
  EXPECT_GT(hung, 5u);
}

// Submissions against quits, with no timer that could make up for one that is lost: operations of
// one rank, which are always ready, and a worker that quits as soon as it can.
Job Restless() {
  Job job;
  job.ranks = 1;
  job.ports = 3;
  job.each = 20;
  job.waits_for_each = true;  // so that it is idle again and again
  job.timing.idle_ns = 0;
  job.timing.stuck_ns = INT64_MAX;
  job.timing.gaps = {INT64_MAX / 4, INT64_MAX / 4};
  return job;
}

TEST(WorkerTest, NoSubmissionIsLost) {
  uint32_t instances = 0;
  for (uint64_t seed = 1; seed <= Seeds(300); ++seed) {
    const Outcome o = RunJob(Restless(), seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    instances += o.instances;
  }
  EXPECT_GT(instances, Seeds(300) * 10);
}

TEST(WorkerTest, WithoutTheBellSomeAreLost) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Job job = Restless();
    job.rings_not = true;
    hung += !RunJob(job, seed).finished;
  }
  EXPECT_GT(hung, 0u);
}

// More operations than the list has room for; slots are used again and again.
// Operations that differ: over on both ranks, and told; what was before them is right.
TEST(WorkerTest, AMismatchEndsOnBothRanks) {
  for (uint64_t seed = 1; seed <= Seeds(20); ++seed) {
    HostHeaps::Options options;
    options.lines_per_lane = 512;
    HostHeaps heaps(options);
    Fibers fibers(seed);
    std::mt19937_64 random(seed);
    const Timing timing;
    std::vector<std::unique_ptr<HostWorker>> workers;
    bool finished = true;
    for (uint32_t r = 0; r < 2; ++r) {
      workers.push_back(std::make_unique<HostWorker>(
          timing, 1 + seed % 8, Policy::kReadyDriven,
          [](WorkerHostBlock& b, const WorkerView& v) { BeResident(b, v); }, &fibers, &random));
    }
    for (uint32_t r = 0; r < 2; ++r) {
      fibers.Add([&, r] {
        HostWorker& worker = *workers[r];
        std::vector<float> in(3000), out(3000);
        for (int i = 0; i < 20 && !worker.stopped(); ++i) {
          const uint64_t count = i == 19 && r == 1 ? 399 : 400;
          const Work w = heaps.Make(r, 0, OpKind::kAllReduce, DataType::kFloat, Operator::kSum,
                                    in.data(), out.data(), count, 0, Way(seed % 3));
          const uint32_t id = worker.Submit(w, 0);
          worker.WaitForDevice();
          while (!worker.IsDone(id) && !worker.stopped()) fibers.Yield();
          fibers.Progress();
        }
        worker.NoMore();
      });
    }
    fibers.OnHang([&] {
      finished = false;
      for (auto& worker : workers) worker->Stop();
    });
    fibers.Run(kTurnsForEver);
    EXPECT_TRUE(finished) << "seed " << seed;
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(heaps.Failed(r), kFailedMismatch) << "seed " << seed;
  }
}

// In an instance of few rounds, whichever blocks each of them knows of in its first: on two H200s
// block k knew of k + 1 (the leader, which has more to do at first, of all), and a channel of a
// mismatch was never looked at.
TEST(WorkerTest, EveryChannelIsLookedAtSoon) {
  constexpr uint32_t kRounds = 4;
  for (uint32_t blocks = 1; blocks <= 9; ++blocks) {
    for (uint32_t channels = 1; channels <= 16; ++channels) {
      for (uint32_t id = 0; id < 2520; ++id) {
        for (uint32_t starts = 0; starts < 3; ++starts) {
          uint32_t looked_at = 0;
          for (uint32_t place = 0; place < blocks; ++place) {
            LookRounds look;
            for (uint32_t round = 0; round < kRounds; ++round) {
              uint32_t places = blocks;
              if (starts == 1 && round == 0 && place != 0) places = place + 1;
              if (starts == 2 && round < 2)
                places = std::max(place + 1, blocks - 1);  // the last one is late
              const bool looks = IsLookRound(&look, places);
              for (uint32_t c = FirstDealt(id, place, places); looks && c < channels; c += places)
                looked_at |= 1u << c;
            }
          }
          ASSERT_EQ(looked_at, (1u << channels) - 1)
              << blocks << " blocks, " << channels << " channels, operation " << id << ", "
              << starts;
        }
      }
    }
  }
}

TEST(WorkerTest, SlotsAreUsedAgain) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Job job;
    job.ports = 3;
    job.each = kDetachedEntries;
    job.only_all_reduce = true;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished);
    EXPECT_EQ(o.wrong, 0u);
  }
}

// Communicators that come and go use the places of their patterns again; those that stay keep
// theirs.
TEST(WorkerTest, PlacesOfPortsAreUsedAgain) {
  for (const bool forgets : {true, false}) {
    const auto host = Zeros<WorkerHost>();
    WorkerList list(host.get(), {});
    uint32_t tickets = 0;
    const auto add = [&](uint64_t port, char* mark) {
      Work work{};
      work.base[0] = mark;
      work.channels = 1;
      const uint32_t id = tickets;
      const WorkerList::Added added = list.Add({work, port, 0, 0}, ++tickets, [] {});
      if (added == WorkerList::Added::kTooManyPorts) return false;
      __atomic_store_n(&host->done[id % kDetachedEntries], id + 1,
                       __ATOMIC_RELEASE);  // as the device does
      PortPattern pattern;
      std::memcpy(pattern.words, &work, sizeof pattern);
      EXPECT_EQ(std::memcmp(&pattern, &host->ports[host->entries[id % kDetachedEntries].port],
                            sizeof pattern),
                0);
      return true;
    };
    char marks[2];
    ASSERT_TRUE(add(0, marks));  // stays
    uint64_t taken = 1;
    for (uint64_t port = 1; port < 3 * kWorkerPorts; ++port) {
      if (!add(port, marks + 1)) break;
      ++taken;
      if (forgets) list.Forget(port);
      ASSERT_TRUE(add(0, marks));
    }
    EXPECT_EQ(taken, forgets ? 3 * kWorkerPorts : kWorkerPorts);
  }
}

// The place of an operation that is unfinished is nobody else's.
TEST(WorkerTest, PlacesOfUnfinishedOperationsAreKept) {
  const auto host = Zeros<WorkerHost>();
  WorkerList list(host.get(), {});
  Work work{};
  work.channels = 1;
  ASSERT_NE(list.Add({work, 0, 0, 0}, 1, [] {}), WorkerList::Added::kTooManyPorts);
  list.Forget(0);
  const uint32_t place = host->entries[0].port;
  for (uint64_t port = 1; port < kDetachedEntries; ++port) {
    const auto id = static_cast<uint32_t>(port);
    ASSERT_NE(list.Add({work, port, 0, 0}, id + 1, [] {}), WorkerList::Added::kTooManyPorts);
    EXPECT_NE(host->entries[id % kDetachedEntries].port, place);
    __atomic_store_n(&host->done[id % kDetachedEntries], id + 1, __ATOMIC_RELEASE);
    list.Forget(port);
  }
}

TEST(WorkerTest, StateOfAnOperationIsSmall) {
  EXPECT_LE(sizeof(DetachedEntry) + sizeof(WorkerDevice::left[0]) + sizeof(WorkerHost::done[0]) +
                sizeof(WorkerDevice::claims[0]),
            160u);
}

}  // namespace
}  // namespace gordian::runtime::cuda
