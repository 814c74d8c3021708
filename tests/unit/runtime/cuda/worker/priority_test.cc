// Priorities of detached operations: the more urgent ones end first, the others end too, and ranks
// may differ about both.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/runtime/cuda/host_worker.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kCount = 20000;
constexpr uint32_t kOthers = 10, kUrgent = 2;

// Ten large operations, and two more once those have begun. How many of the ten have ended before
// the two had, over both ranks.
uint32_t EndedBefore(uint64_t seed, uint32_t urgent, uint32_t others) {
  HostHeaps::Options options;
  options.communicators = kOthers + kUrgent;
  HostHeaps heaps(options);
  Fibers fibers(seed);
  std::mt19937_64 random(seed);
  const Timing timing;
  std::vector<std::unique_ptr<HostWorker>> workers;
  bool finished = true;
  uint32_t ended = 0;
  for (uint32_t r = 0; r < 2; ++r) {
    workers.push_back(std::make_unique<HostWorker>(
        timing, 1 + seed % 3, Policy::kReadyDriven,
        [](WorkerHostBlock& b, const WorkerView& v) { BeResident(b, v); }, &fibers, &random));
  }
  for (uint32_t r = 0; r < 2; ++r) {
    fibers.Add([&, r] {
      HostWorker& worker = *workers[r];
      std::vector<float> in(kCount, 1.0f), out((kOthers + kUrgent) * kCount);
      std::vector<uint32_t> ids;
      for (uint32_t p = 0; p < kOthers + kUrgent; ++p) {
        const Work w = heaps.Make(r, p, OpKind::kAllReduce, DataType::kFloat, Operator::kSum,
                                  in.data(), out.data() + p * kCount, kCount, 0, Way(2));
        if (p == kOthers) {
          while (worker.device().progress == 0 && !worker.stopped()) fibers.Yield();
        }
        ids.push_back(worker.Submit(w, p, p < kOthers ? others : urgent));
      }
      for (uint32_t p = kOthers; p < kOthers + kUrgent; ++p) {
        while (!worker.IsDone(ids[p]) && !worker.stopped()) fibers.Yield();
        fibers.Progress();
      }
      for (uint32_t p = 0; p < kOthers; ++p) ended += worker.IsDone(ids[p]) ? 1 : 0;
      for (const uint32_t id : ids) {
        while (!worker.IsDone(id) && !worker.stopped()) fibers.Yield();
        fibers.Progress();
      }
      for (const float value : out)
        EXPECT_TRUE(value == 2.0f || worker.stopped()) << "seed " << seed;
      worker.NoMore();
    });
  }
  fibers.OnHang([&] {
    finished = false;
    for (auto& worker : workers) worker->Stop();
  });
  fibers.Run(kTurnsForEver);
  EXPECT_TRUE(finished) << "seed " << seed;
  return ended;
}

TEST(PriorityTest, UrgentOnesEndFirst) {
  uint32_t with = 0, equal = 0;
  for (uint64_t seed = 1; seed <= Seeds(10); ++seed) {
    with += EndedBefore(seed, 1, 2);
    equal += EndedBefore(seed, 1, 1);
  }
  EXPECT_LT(with * 4, equal);
}

// The most urgent number is 0, which is what operations have that name none.
TEST(PriorityTest, NoneIsTheMostUrgent) {
  uint32_t with = 0, turned = 0;
  for (uint64_t seed = 1; seed <= Seeds(10); ++seed) {
    with += EndedBefore(seed, 0, 7);
    turned += EndedBefore(seed, 7, 0);
  }
  EXPECT_LT(with * 4, turned);
}

// Another urgent operation in every round. Rounds until the one that is not urgent is done.
uint32_t Rounds(bool ages, uint32_t most) {
  HostHeaps::Options options;
  options.ranks = 1;
  options.communicators = 2;
  HostHeaps heaps(options);
  Fibers fibers(1);
  std::mt19937_64 random(1);
  const auto host = Zeros<WorkerHost>();
  const auto device = Zeros<WorkerDevice>();
  WorkerQueue queue(host.get(), {});
  WorkerView view{};
  const uint32_t stop = 0;
  view.host = host.get();
  view.device = device.get();
  view.stop = &stop;
  uint32_t rounds = 0;
  fibers.Add([&] {
    WorkerHostBlock b(0, 1, &fibers, &random);
    std::vector<float> in(kCount, 1.0f), out(2 * kCount);
    const auto make = [&](uint32_t port) {
      return heaps.Make(0, port, OpKind::kAllReduce, DataType::kFloat, Operator::kSum, in.data(),
                        out.data() + port * kCount, port == 0 ? kCount : 10, 0, Way(2));
    };
    uint32_t patient = 0, urgent = 0;
    queue.Add({make(0), 0, 0, 1}, true, &patient, [] {});
    Composed composed;
    LookRounds look;
    look.places = 1;
    look.rounds = 1;  // the first of an instance goes along all
    uint64_t taken = 0;
    while (!queue.IsDone(patient) && rounds < most) {
      queue.Add({make(1), 1, 1, 0}, true, &urgent, [] {});
      TakeIn(b, view);
      taken = host->published;
      const bool looks = IsLookRound(&look, 1);
      const uint32_t progress = device->progress;
      WorkOnce(b, view, 0, 1, ages && looks, &composed);
      EXPECT_GT(device->progress, progress);
      while (device->head != static_cast<uint32_t>(taken) && IsDetachedDone(view, device->head))
        ++device->head;
      ++rounds;
    }
  });
  fibers.Run(kTurnsForEver);
  return rounds;
}

TEST(PriorityTest, NoneStarves) {
  constexpr uint32_t kMost = 800;
  EXPECT_LT(Rounds(true, kMost), kMost);
  EXPECT_EQ(Rounds(false, kMost), kMost);  // the twin: without the rounds that go along all
}

// A channel that is left with steps to do has told its peers of all that it has sent: large
// operations, with little room for what is on its way, so that every chunk is waited for.
TEST(PriorityTest, WhatIsLeftIsTold) {
  for (uint64_t seed = 1; seed <= Seeds(60); ++seed) {
    Job job;
    job.ranks = seed % 3 == 0 ? 3 : 2;
    job.blocks = 1 + seed % 2;
    job.ports = 3;
    job.only_bulk = true;
    job.priorities = 3;
    job.most_count = 4000;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
  }
}

// Whatever the ranks say of it, all operations end.
TEST(PriorityTest, RanksMayDiffer) {
  for (uint64_t seed = 1; seed <= Seeds(40); ++seed) {
    Job job;
    job.ranks = seed % 3 == 0 ? 3 : 2;
    job.blocks = 1 + seed % 4;
    job.ports = 6;
    job.priorities = 2 + seed % 12;  // more than a round tells apart, too
    job.policy = seed % 2 == 0 ? Policy::kReadyDriven : Policy::kSpinThreshold;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
