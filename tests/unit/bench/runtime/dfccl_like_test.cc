// The daemon that experiments compare the runtime with, on the host: its results are right and it
// ends, in each of its variants, or its figures would mean nothing.
#include <gtest/gtest.h>

#include "bench/runtime/dfccl_device.h"
#include "tests/unit/runtime/cuda/host_worker.h"

namespace gordian::runtime::cuda {

template <>
inline StepResult RunDfcclAny(WorkerHostBlock& b, const Work& w, uint32_t channel, uint32_t* pc,
                              const DfcclView& v, uint64_t spins) {
  return RunDfccl<AnyType, kMaxRanks>(b, w, channel, pc, v, spins);
}

namespace {

// One rank's daemon. Completions are told by words: the queues need a host that polls.
struct Daemon {
  DfcclDevice device{};
  uint32_t ids[8][kDetachedEntries];
};

Job DfcclJob(Stickiness stickiness, bool ring, std::vector<std::unique_ptr<Daemon>>* daemons) {
  Job job;
  job.blocks = 3;
  job.timing.stuck_ns = 2'000'000;  // it looks at the clock often, and a look takes 4 us here
  job.only_all_reduce = job.only_bulk = ring;
  job.body = [=](uint32_t) -> Body {
    daemons->push_back(std::make_unique<Daemon>());
    Daemon* daemon = daemons->back().get();
    return [=](WorkerHostBlock& b, const WorkerView& view) {
      DfcclView v{view, {}, nullptr, &daemon->device};
      v.options.stickiness = stickiness;
      v.options.naive_spins = 10;
      v.options.adaptive = {32, 2};
      v.options.completion = Completion::kWord;
      v.options.ring = ring;
      BeDfccl(b, v, daemon->ids[b.Index()]);
    };
  };
  return job;
}

TEST(DfcclLikeTest, AnyOrderCompletes) {
  uint32_t preempted = 0;
  for (uint64_t seed = 1; seed <= Seeds(60); ++seed) {
    std::vector<std::unique_ptr<Daemon>> daemons;
    Job job = DfcclJob(static_cast<Stickiness>(seed % 3), seed % 2 == 0, &daemons);
    job.ranks = 2 + seed % 3;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    for (const auto& daemon : daemons) preempted += daemon->device.preemptions;
  }
  EXPECT_GT(preempted, 0u);
}

TEST(DfcclLikeTest, WaitsForTheDeviceEnd) {
  for (uint64_t seed = 1; seed <= Seeds(20); ++seed) {
    std::vector<std::unique_ptr<Daemon>> daemons;
    Job job = DfcclJob(Stickiness::kAdaptive, true, &daemons);
    job.waits_for_device = true;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
