// The resident worker on the host: device and host halves as they are, its blocks, the watcher and the
// submitters as fibers whose turns a seed chooses. Orders that differ by rank, waits for the device in
// between, quits and new starts at any moment. What it cannot show is anything about the order of memory
// accesses; tests/unit/runtime/quit_model_test.cc does that for the protocol.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/worker_list.h"
#include "tests/unit/runtime_cuda/host_world.h"
#include "tests/unit/runtime_cuda/reference.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kForEver = 60000;  // turns without an operation that ends

class WorkerHostBlock : public HostBlock {
 public:
  WorkerHostBlock(uint32_t index, uint32_t blocks, Fibers* fibers, std::mt19937_64* random)
      : HostBlock(index, blocks, fibers), fibers_(fibers), random_(random) {}
  Work& Entry() { return entry_; }
  uint32_t* Picked() { return picked_; }
  void Rest() { fibers_->Yield(); }
  void Point() {
    if ((*random_)() % 2 == 0) fibers_->Yield();
  }

 private:
  Fibers* const fibers_;
  std::mt19937_64* const random_;
  Work entry_;
  uint32_t picked_[2];
};

}  // namespace

template <>
inline StepResult RunChannel(WorkerHostBlock& b, const Work& w, uint32_t channel, uint32_t* pc, const WorkerView& v,
                             uint64_t spins) {
  return RunChannelOf<AnyType, kMaxRanks>(b, w, channel, pc, v, spins);
}

namespace {

template <typename T>
std::unique_ptr<T, decltype(&std::free)> Zeros() {
  auto* memory = static_cast<T*>(std::aligned_alloc(128, RoundUp(sizeof(T), 128)));
  std::memset(static_cast<void*>(memory), 0, sizeof(T));
  return {memory, &std::free};
}

struct Timing {
  int64_t idle_ns = 30'000, stuck_ns = 120'000;
  WorkerGaps gaps = {20'000, 100'000};
};

// One rank's worker with all that runs it.
class HostWorker {
 public:
  HostWorker(const Timing& timing, uint32_t blocks, Policy policy, Fibers* fibers, std::mt19937_64* random)
      : blocks_(blocks), fibers_(fibers), random_(random), list_(host_.get(), timing.gaps) {
    view_.host = host_.get();
    view_.device = device_.get();
    view_.stop = &stop_;
    view_.policy = policy;
    view_.spin = {16, 2};
    view_.idle_ns = timing.idle_ns;
    view_.stuck_ns = timing.stuck_ns;
    for (uint32_t i = 0; i < blocks; ++i) fibers->Add([this, i] { Block(i); });
    fibers->Add([this] { Watch(); });
  }
  uint32_t Submit(const Work& w, uint64_t port) {
    uint32_t id = 0;
    WorkerList::Added added;
    if (rings_not_) __atomic_store_n(&host_->life, kRunning, __ATOMIC_SEQ_CST);
    while ((added = list_.Add(w, port, port, &id, [this] { Point(); })) == WorkerList::Added::kFull) {
      if (stopped()) return 0;
      fibers_->Yield();
    }
    EXPECT_NE(added, WorkerList::Added::kTooManyPorts);
    return id;
  }
  bool IsDone(uint32_t id) const { return list_.IsDone(id); }
  // As a call that waits for the whole device: returns when nothing is there.
  void WaitForDevice() {
    while (left_ > 0 && !stopped()) fibers_->Yield();
  }
  void NoMore() { no_more_ = true; }
  void Stop() { __atomic_store_n(&stop_, 1, __ATOMIC_RELEASE); }
  bool stopped() const { return stop_ != 0; }
  // Submitters that take the worker for running, whatever it is.
  void RingNot() { rings_not_ = true; }
  uint32_t instances() const { return list_.instance(); }
  const WorkerHost& host() const { return *host_; }
  const WorkerDevice& device() const { return *device_; }

 private:
  void Point() {
    if ((*random_)() % 2 == 0) fibers_->Yield();
  }
  void Block(uint32_t index) {
    for (uint32_t seen = 0;;) {
      while (launched_ == seen && !over_) fibers_->Yield();
      if (launched_ == seen) return;
      seen = launched_;
      WorkerHostBlock block(index, blocks_, fibers_, random_);
      const WorkerView view = view_;
      BeResident(block, view);
      --left_;
    }
  }
  void Watch() {
    for (;;) {
      Point();
      const auto now = static_cast<int64_t>(fibers_->Clock());
      if (stopped() || (no_more_ && list_.Idle())) break;
      if (list_.StartAt(now) > now) continue;
      list_.Starting();
      Point();
      EXPECT_EQ(left_, 0u);
      view_.instance = list_.instance();
      left_ = blocks_;
      ++launched_;
      while (left_ > 0) fibers_->Yield();
      EXPECT_TRUE(host_->life == kDown || rings_not_);
      list_.Ended(static_cast<int64_t>(fibers_->Clock()));
    }
    over_ = true;
  }

  const uint32_t blocks_;
  Fibers* const fibers_;
  std::mt19937_64* const random_;
  std::unique_ptr<WorkerHost, decltype(&std::free)> host_ = Zeros<WorkerHost>();
  std::unique_ptr<WorkerDevice, decltype(&std::free)> device_ = Zeros<WorkerDevice>();
  WorkerList list_;
  WorkerView view_{};
  uint32_t stop_ = 0, launched_ = 0, left_ = 0;
  bool no_more_ = false, over_ = false, rings_not_ = false;
};

// Ways of carrying: LL, two-shot LL, bulk.
Thresholds Way(uint64_t way) {
  Thresholds t;
  t.one_shot = way == 0 ? 4096 : 0;
  t.two_shot_lines = way == 1 ? 4096 : 0;
  t.move_lines = way <= 1 ? 4096 : 0;
  t.line_threads = 8;
  t.bulk_per_channel = 512;
  return t;
}

struct Job {
  uint32_t ranks = 2;
  uint32_t ports = 4;
  uint32_t each = 3;  // operations of a port
  uint32_t blocks = 2;
  Timing timing;
  Policy policy = Policy::kReadyDriven;
  bool waits_for_device = false;  // after each submission
  bool waits_for_each = false;    // for the operation itself: opposite orders cannot end
  bool rings_not = false;
  bool only_all_reduce = false;
};

struct Outcome {
  bool finished = true;
  uint64_t wrong = 0;
  uint32_t instances = 0, operations = 0;
  uint64_t switches = 0, progress = 0, visits = 0;
};

Outcome RunJob(const Job& job, uint64_t seed) {
  HostHeaps::Options options;
  options.ranks = job.ranks;
  options.communicators = job.ports;
  options.lines_per_lane = 512;
  options.user_bytes = 1 << 18;
  HostHeaps heaps(options);
  std::mt19937_64 random(seed);
  std::vector<std::vector<Case>> what(job.ports);
  std::vector<std::vector<uint64_t>> way(job.ports);
  for (uint32_t p = 0; p < job.ports; ++p) {
    for (uint32_t i = 0; i < job.each; ++i) {
      Case c;
      c.kind = job.only_all_reduce ? OpKind::kAllReduce : kAll[random() % 8];
      c.count = 1 + random() % 400;
      c.root = static_cast<uint32_t>(random() % job.ranks);
      what[p].push_back(c);
      way[p].push_back(random() % 3);
    }
  }
  Fibers fibers(seed);
  std::vector<std::unique_ptr<HostWorker>> workers;
  for (uint32_t r = 0; r < job.ranks; ++r) {
    workers.push_back(std::make_unique<HostWorker>(job.timing, job.blocks, job.policy, &fibers, &random));
    if (job.rings_not) workers.back()->RingNot();
  }
  Outcome outcome;
  for (uint32_t r = 0; r < job.ranks; ++r) {
    std::vector<uint32_t> order;
    for (uint32_t p = 0; p < job.ports; ++p) order.insert(order.end(), job.each, p);
    std::shuffle(order.begin(), order.end(), random);
    fibers.Add([&, r, order] {
      HostWorker& worker = *workers[r];
      struct Open {
        uint32_t id;
        const Case* c;
        std::vector<char> in, own;
        char* out;
      };
      std::vector<Open> open;
      std::vector<uint32_t> next(job.ports, 0);
      uint64_t heap_at = 0;
      for (const uint32_t p : order) {
        const Case& c = what[p][next[p]];
        const uint64_t size = SizeOf(c.type);
        const uint64_t ins = InputCount(c.kind, c.count, job.ranks), outs = OutputCount(c.kind, c.count, job.ranks);
        Open o{0, &c, std::vector<char>(ins * size + 16), std::vector<char>(outs * size + 16, 77), nullptr};
        for (uint64_t i = 0; i < ins; ++i) Encode(c.type, Value(r, i), o.in.data() + i * size);
        o.out = o.own.data();
        if (p % 2 == 1 && heap_at + outs * size <= options.user_bytes) {  // peers may write it directly
          o.out = heaps.User(r) + heap_at;
          heap_at += RoundUp(outs * size, 64);
        }
        const Work w = heaps.Make(r, p, c.kind, c.type, c.op, o.in.data(), o.out, c.count, c.root, Way(way[p][next[p]]));
        ++next[p];
        o.id = worker.Submit(w, p);
        open.push_back(std::move(o));
        if (job.waits_for_device) worker.WaitForDevice();
        while (job.waits_for_each && !worker.IsDone(open.back().id) && !worker.stopped()) fibers.Yield();
        if (random() % 4 == 0) fibers.Yield();
      }
      for (const Open& o : open) {
        while (!worker.IsDone(o.id) && !worker.stopped()) fibers.Yield();
        if (worker.stopped()) break;
        fibers.Progress();
        char want[8];
        const uint64_t size = SizeOf(o.c->type);
        if (!HasOutput(o.c->kind, static_cast<int32_t>(o.c->root), r)) continue;
        for (uint64_t i = 0; i < OutputCount(o.c->kind, o.c->count, job.ranks); ++i) {
          Encode(o.c->type, Expected(*o.c, job.ranks, r, i), want);
          if (std::memcmp(want, o.out + i * size, size) != 0) ++outcome.wrong;
        }
      }
      worker.NoMore();
    });
  }
  fibers.OnHang([&] {
    outcome.finished = false;
    for (auto& worker : workers) worker->Stop();
  });
  fibers.Run(kForEver);
  for (auto& worker : workers) {
    outcome.instances += worker->instances();
    outcome.operations += job.ports * job.each;
    outcome.switches += worker->host().switches;
    outcome.progress += worker->host().progress;
    outcome.visits += worker->host().visits;
  }
  return outcome;
}

TEST(WorkerTest, AnyOrderCompletes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
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
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Job job;
    job.ranks = seed % 3 == 0 ? 3 : 2;
    job.blocks = 1 + seed % 3;
    job.waits_for_device = true;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    instances += o.instances;
  }
  EXPECT_GT(instances, 40u * 2 * 3);  // it has quit while operations were unfinished
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

// Submissions against quits, with no timer that could make up for one that is lost: operations of one
// rank, which are always ready, and a worker that quits as soon as it can.
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
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Outcome o = RunJob(Restless(), seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    instances += o.instances;
  }
  EXPECT_GT(instances, 3000u);
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

TEST(WorkerTest, StateOfAnOperationIsSmall) {
  EXPECT_LE(sizeof(DetachedEntry) + sizeof(WorkerDevice::left[0]) + sizeof(WorkerHost::done[0]) +
                sizeof(WorkerDevice::claims[0]),
            160u);
}

}  // namespace
}  // namespace gordian::runtime::cuda
