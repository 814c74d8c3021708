// Resident workers of several ranks on the host: device and host halves as they are; blocks,
// watchers and submitters as fibers whose turns a seed chooses.
#ifndef GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORKER_H_
#define GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORKER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cuda/worker/worker_join_device.h"
#include "runtime/cuda/worker/worker_queue.h"
#include "tests/unit/runtime/cuda/host_cases.h"
#include "tests/unit/runtime/cuda/host_world.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {

inline constexpr uint64_t kTurnsForEver = 60000;  // turns without an operation that ends

class WorkerHostBlock : public HostBlock {
 public:
  WorkerHostBlock(uint32_t index, uint32_t blocks, Fibers* fibers, std::mt19937_64* random)
      : HostBlock(index, blocks, fibers), fibers_(fibers), random_(random) {}
  Work& Entry() { return entry_; }
  WalkRoom* Walk() { return &walk_; }
  void Rest() { fibers_->Yield(); }
  void Doze() { fibers_->Yield(); }
  void Point() {
    if ((*random_)() % 2 == 0) fibers_->Yield();
  }

 private:
  Fibers* const fibers_;
  std::mt19937_64* const random_;
  Work entry_;
  WalkRoom walk_;
};

template <>
inline StepResult RunChannel(WorkerHostBlock& b, const Work& w, uint32_t channel, uint32_t* pc,
                             const WorkerView& v, Stay stay) {
  return RunChannelOf<AnyType, kMaxRanks>(b, w, channel, pc, v, stay);
}

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

// What a block of the kernel does.
using Body = std::function<void(WorkerHostBlock&, const WorkerView&)>;

// One rank's worker with all that runs it.
class HostWorker {
 public:
  HostWorker(const Timing& timing, uint32_t blocks, Policy policy, Body body, Fibers* fibers,
             std::mt19937_64* random)
      : blocks_(blocks),
        body_(std::move(body)),
        fibers_(fibers),
        random_(random),
        queue_(host_.get(), timing.gaps, kWorkerPorts - 2) {
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
  // Its ticket. `is_ready`: else Ready() must be called, when its stream comes to it.
  uint32_t Submit(const Work& w, uint64_t port, uint32_t priority = 0, bool is_ready = true) {
    uint32_t ticket = 0;
    WorkerQueue::Added added;
    if (rings_not_) __atomic_store_n(&host_->life, kRunning, __ATOMIC_SEQ_CST);
    while ((added = Locked([&] {
              return queue_.Add({w, port, port, priority}, is_ready, &ticket, [this] { Point(); });
            })) == WorkerQueue::Added::kFull) {
      if (stopped()) return 0;
      fibers_->Yield();
    }
    EXPECT_NE(added, WorkerQueue::Added::kTooManyPorts);
    return ticket;
  }
  void Ready(uint32_t ticket) {
    if (rings_not_) __atomic_store_n(&host_->life, kRunning, __ATOMIC_SEQ_CST);
    Locked([&] { return queue_.Ready(ticket, [this] { Point(); }); });
  }
  // As a stream's kernel that waits for them.
  void HelpUntilEnd(const JoinTickets& tickets) {
    WorkerHostBlock block(0, 1, fibers_, random_);
    const WorkerView view = view_;
    HelpUntilEnded(block, view, tickets);
  }
  // No instance starts any more: its hardware queue is another's.
  void StartNothing() { starts_nothing_ = true; }
  bool IsDone(uint32_t ticket) const { return queue_.IsDone(ticket); }
  // As a call that waits for the whole device: returns when nothing is there.
  void WaitForDevice() {
    while (left_ > 0 && !stopped()) fibers_->Yield();
  }
  void NoMore() { no_more_ = true; }
  void Stop() { __atomic_store_n(&stop_, 1, __ATOMIC_RELEASE); }
  bool stopped() const { return stop_ != 0; }
  // Submitters that take the worker for running, whatever it is.
  void RingNot() { rings_not_ = true; }
  uint32_t instances() const { return queue_.list()->instance(); }
  const WorkerHost& host() const { return *host_; }
  const WorkerDevice& device() const { return *device_; }

 private:
  void Point() {
    if ((*random_)() % 2 == 0) fibers_->Yield();
  }
  // As the owner's lock.
  template <typename Body>
  std::invoke_result_t<Body> Locked(Body body) {
    while (is_locked_) fibers_->Yield();
    is_locked_ = true;
    const auto result = body();
    is_locked_ = false;
    return result;
  }
  void Block(uint32_t index) {
    for (uint32_t seen = 0;;) {
      while (launched_ == seen && !over_) fibers_->Yield();
      if (launched_ == seen) return;
      seen = launched_;
      WorkerHostBlock block(index, blocks_, fibers_, random_);
      const WorkerView view = view_;
      body_(block, view);
      --left_;
    }
  }
  void Watch() {
    for (;;) {
      Point();
      const auto now = static_cast<int64_t>(fibers_->Clock());
      if (!is_locked_) Locked([&] { return queue_.Flush([this] { Point(); }); });
      WorkerList& list = *queue_.list();
      if (stopped() || (no_more_ && list.Idle())) break;
      if (list.StartAt(now) > now || starts_nothing_) continue;
      list.Starting();
      Point();
      EXPECT_EQ(left_, 0u);
      view_.instance = list.instance();
      left_ = blocks_;
      ++launched_;
      while (left_ > 0) fibers_->Yield();
      EXPECT_TRUE(host_->life == kDown || rings_not_);
      list.Ended(static_cast<int64_t>(fibers_->Clock()));
    }
    over_ = true;
  }

  const uint32_t blocks_;
  const Body body_;
  Fibers* const fibers_;
  std::mt19937_64* const random_;
  std::unique_ptr<WorkerHost, decltype(&std::free)> host_ = Zeros<WorkerHost>();
  std::unique_ptr<WorkerDevice, decltype(&std::free)> device_ = Zeros<WorkerDevice>();
  WorkerQueue queue_;
  bool is_locked_ = false;
  WorkerView view_{};
  uint32_t stop_ = 0, launched_ = 0, left_ = 0;
  bool no_more_ = false, over_ = false, rings_not_ = false, starts_nothing_ = false;
};

// So many seeds, or as many as GORDIAN_TEST_ORDERS says.
inline uint64_t Seeds(uint64_t usual) {
  const char* wanted = std::getenv("GORDIAN_TEST_ORDERS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 0) : usual;
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
  bool only_bulk = false;
  uint64_t most_count = 400;
  uint32_t priorities = 1;  // so many, drawn for each operation and rank
  uint32_t streams =
      0;  // most operations are called on one of so many, which come to them at some time
  bool as_they_come = false;  // and only then are they handed over at all
  bool helps = false;         // a stream of each rank waits for all, by a kernel that helps
  bool helps_each = false;    // likewise, for each operation by itself
  bool starts_nothing = false;
  bool same_order = false;  // on all ranks
  // Of a rank; null: the resident worker.
  std::function<Body(uint32_t rank)> body;
};

struct Outcome {
  bool finished = true;
  uint64_t wrong = 0;
  uint32_t instances = 0, operations = 0;
  uint64_t switches = 0, progress = 0, visits = 0;
};

inline Outcome RunJob(const Job& job, uint64_t seed) {
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
      c.count = 1 + random() % job.most_count;
      c.root = static_cast<uint32_t>(random() % job.ranks);
      what[p].push_back(c);
      way[p].push_back(job.only_bulk ? 2 : random() % 4);
    }
  }
  Fibers fibers(seed);
  std::vector<std::unique_ptr<HostWorker>> workers;
  for (uint32_t r = 0; r < job.ranks; ++r) {
    Body body = [](WorkerHostBlock& b, const WorkerView& v) { BeResident(b, v); };
    if (job.body) body = job.body(r);
    workers.push_back(
        std::make_unique<HostWorker>(job.timing, job.blocks, job.policy, body, &fibers, &random));
    if (job.rings_not) workers.back()->RingNot();
    if (job.starts_nothing) workers.back()->StartNothing();
  }
  Outcome outcome;
  std::vector<std::shared_ptr<void>> kept;
  struct Stream {
    std::deque<std::function<void()>> calls;
    bool ended = false;
  };
  std::vector<std::vector<Stream>> streams(job.ranks, std::vector<Stream>(job.streams));
  for (auto& of_rank : streams) {
    for (Stream& stream : of_rank) {
      fibers.Add([&fibers, &random, &stream] {
        while (!stream.ended || !stream.calls.empty()) {
          fibers.Yield();
          if (stream.calls.empty() || random() % 4 != 0) continue;
          const auto call = std::move(stream.calls.front());
          stream.calls.pop_front();
          call();
        }
      });
    }
  }
  for (uint32_t r = 0; r < job.ranks; ++r) {
    std::vector<uint32_t> order;
    for (uint32_t p = 0; p < job.ports; ++p) order.insert(order.end(), job.each, p);
    if (!job.same_order) std::shuffle(order.begin(), order.end(), random);
    fibers.Add([&, r, order] {
      HostWorker& worker = *workers[r];
      struct Open {
        std::shared_ptr<uint32_t> ticket;  // 0: not handed over yet
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
        const uint64_t ins = InputCount(c.kind, c.count, job.ranks),
                       outs = OutputCount(c.kind, c.count, job.ranks);
        Open o{std::make_shared<uint32_t>(0), &c, std::vector<char>(ins * size + 16),
               std::vector<char>(outs * size + 16, 77), nullptr};
        for (uint64_t i = 0; i < ins; ++i) Encode(c.type, Value(r, i), o.in.data() + i * size);
        o.out = o.own.data();
        if (p % 2 == 1 &&
            heap_at + outs * size <= options.user_bytes) {  // peers may write it directly
          o.out = heaps.User(r) + heap_at;
          heap_at += RoundUp(outs * size, 64);
        }
        const Work w = heaps.Make(r, p, c.kind, c.type, c.op, o.in.data(), o.out, c.count, c.root,
                                  Way(way[p][next[p]]));
        ++next[p];
        const uint32_t priority =
            job.priorities > 1 ? static_cast<uint32_t>(random() % job.priorities) : 0;
        if (job.streams > 0 && random() % 4 != 0) {
          if (!job.as_they_come) *o.ticket = worker.Submit(w, p, priority, false);
          streams[r][random() % job.streams].calls.push_back(
              [&worker, w, p, priority, ticket = o.ticket] {
                if (*ticket == 0) {
                  *ticket = worker.Submit(w, p, priority);
                } else {
                  worker.Ready(*ticket);
                }
              });
        } else {
          *o.ticket = worker.Submit(w, p, priority);
        }
        open.push_back(std::move(o));
        if (job.waits_for_device) worker.WaitForDevice();
        if (job.helps_each) {
          worker.HelpUntilEnd({1, {*open.back().ticket}});
          if (!worker.stopped()) fibers.Progress();
        }
        while (job.waits_for_each && !worker.IsDone(*open.back().ticket) && !worker.stopped())
          fibers.Yield();
        if (random() % 4 == 0) fibers.Yield();
      }
      JoinTickets tickets{};
      for (const Open& o : open) {
        if (job.helps && tickets.count < kJoinTickets) tickets.of[tickets.count++] = *o.ticket;
      }
      if (job.helps) worker.HelpUntilEnd(tickets);
      for (const Open& o : open) {
        while ((*o.ticket == 0 || !worker.IsDone(*o.ticket)) && !worker.stopped()) fibers.Yield();
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
      kept.push_back(std::make_shared<std::vector<Open>>(
          std::move(open)));  // blocks may still be at what hung
      worker.NoMore();
      for (Stream& stream : streams[r]) stream.ended = true;
    });
  }
  fibers.OnHang([&] {
    outcome.finished = false;
    for (auto& worker : workers) worker->Stop();
  });
  fibers.Run(kTurnsForEver);
  for (auto& worker : workers) {
    outcome.instances += worker->instances();
    outcome.operations += job.ports * job.each;
    outcome.switches += worker->host().switches;
    outcome.progress += worker->host().progress;
    outcome.visits += worker->host().visits;
  }
  return outcome;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORKER_H_
