// Jobs for `gordian run --on-verdict recover`: collectives whose every output the job compares with
// what a serial program computes, in steps of which some go the other way round at the last rank.
// The twin keeps one order everywhere.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

enum class Kind { kAllReduce, kAllGather, kReduceScatter };

// One collective of this rank with buffers of its own, and what must come out.
class Checked {
 public:
  Checked(job::Context& c, std::vector<int> members, Kind kind, size_t count, bool in_place = false)
      : c_(c), members_(std::move(members)), kind_(kind), count_(count) {
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] == c.rank) me_ = static_cast<int>(i);
    }
    const size_t n = members_.size();
    in_count_ = kind == Kind::kReduceScatter ? count * n : count;
    out_count_ = kind == Kind::kAllGather ? count * n : count;
    if (in_place) {
      float* const both = c.Buffer(std::max(in_count_, out_count_));
      const size_t mine = static_cast<size_t>(me_) * count;
      in_ = both + (kind == Kind::kAllGather ? mine : 0);
      out_ = both + (kind == Kind::kReduceScatter ? mine : 0);
    } else {
      in_ = c.Buffer(in_count_);
      out_ = c.Buffer(out_count_);
    }
  }

  float* in() { return in_; }
  float* out() { return out_; }
  size_t in_bytes() const { return in_count_ * sizeof(float); }
  size_t out_bytes() const { return out_count_ * sizeof(float); }

  // Writes the input of this step; waits for it.
  void Fill(int step) { FillAt(in_, step); }
  // The same in another place, from which the program copies it.
  void FillAt(float* to, int step) {
    step_ = step;
    std::vector<float> host(in_count_);
    for (size_t i = 0; i < in_count_; ++i) host[i] = Value(me_, i);
    CUDA_OK(cudaMemcpy(to, host.data(), in_bytes(), cudaMemcpyHostToDevice));
  }

  void Call(ncclComm_t comm, cudaStream_t stream) {
    c_.Step("collective");
    switch (kind_) {
      case Kind::kAllReduce:
        NCCL_OK(ncclAllReduce(in_, out_, count_, ncclFloat, ncclSum, comm, stream));
        break;
      case Kind::kAllGather:
        NCCL_OK(ncclAllGather(in_, out_, count_, ncclFloat, comm, stream));
        break;
      case Kind::kReduceScatter:
        NCCL_OK(ncclReduceScatter(in_, out_, count_, ncclFloat, ncclSum, comm, stream));
        break;
    }
  }

  void Check(const char* what) { CheckAt(out_, what); }
  // A copy of the output, wherever it is.
  void CheckAt(const float* copy, const char* what) {
    std::vector<float> host(out_count_);
    CUDA_OK(cudaMemcpy(host.data(), copy, out_bytes(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out_count_; ++i) {
      const float expected = Expected(i);
      if (std::memcmp(&host[i], &expected, sizeof expected) == 0) continue;
      std::fprintf(stderr, "rank %d, step %d, %s[%zu]: %f where %f must be\n", c_.rank, step_, what,
                   i, static_cast<double>(host[i]), static_cast<double>(expected));
      std::_Exit(7);
    }
  }

 private:
  // Sums of these are exact, in any order.
  float Value(int member, size_t i) const {
    return static_cast<float>((member + 1) * (step_ + 3) + static_cast<int>(i % 97));
  }
  float Expected(size_t i) const {
    if (kind_ == Kind::kAllGather) return Value(static_cast<int>(i / count_), i % count_);
    const size_t at = kind_ == Kind::kReduceScatter ? static_cast<size_t>(me_) * count_ + i : i;
    float sum = 0;
    for (size_t m = 0; m < members_.size(); ++m) sum += Value(static_cast<int>(m), at);
    return sum;
  }

  job::Context& c_;
  const std::vector<int> members_;
  const Kind kind_;
  const size_t count_;
  int me_ = 0, step_ = 0;
  size_t in_count_ = 0, out_count_ = 0;
  float* in_ = nullptr;
  float* out_ = nullptr;
};

// The last rank goes the other way round in these steps: between others, and twice.
bool GoesRound(const job::Context& c, int step) {
  return !c.twin && c.rank == c.nranks - 1 && (step == 1 || step == 3);
}
constexpr int kSteps = 5;

void Three(job::Context& c, bool in_place) {
  cudaStream_t s = c.Stream();
  const std::vector<int> pairs[] = {{0, 1}, {1, 2}, {2, 0}};
  ncclComm_t comms[3];
  std::unique_ptr<Checked> ops[3];
  for (int i = 0; i < 3; ++i) {
    comms[i] = c.MakeComm("pair" + std::to_string(i), pairs[i]);
    c.Warm(comms[i], s);
    if (comms[i] != nullptr)
      ops[i] = std::make_unique<Checked>(c, pairs[i], Kind::kAllReduce, 1000, in_place);
  }
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    // In steps 1 and 3 each begins with another one; else all with the first.
    const bool round = !c.twin && (step == 1 || step == 3);
    const int first = round ? c.rank % 3 : 0;
    for (int i = 0; i < 3; ++i) {
      if (ops[i] != nullptr) ops[i]->Fill(step);
    }
    for (int i = 0; i < 3; ++i) {
      const int at = (first + i) % 3;
      if (ops[at] != nullptr) ops[at]->Call(comms[at], s);
    }
    c.Sync(s);
    for (int i = 0; i < 3; ++i) {
      if (ops[i] != nullptr) ops[i]->Check("pair");
    }
  }
}

void Subset(job::Context& c, bool in_place) {
  cudaStream_t s = c.Stream();
  std::vector<int> few = c.All();
  few.pop_back();
  ncclComm_t world = c.World();
  ncclComm_t part = c.MakeComm("part", few);
  c.Warm(world, s);
  c.Warm(part, s);
  Checked a(c, c.All(), Kind::kAllReduce, 2048, in_place),
      b(c, few, Kind::kAllReduce, 333, in_place);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    const bool round = !c.twin && c.rank == c.nranks - 2 && (step == 1 || step == 3);
    if (round) b.Call(part, s);
    a.Call(world, s);
    if (!round && part != nullptr) b.Call(part, s);
    c.Sync(s);
    a.Check("a");
    if (part != nullptr) b.Check("b");
  }
}

// --count is the size of one of both.
void Sized(job::Context& c, bool in_place) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, c.count, in_place),
      b(c, c.All(), Kind::kAllReduce, 256, in_place);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    const bool round = GoesRound(c, step);
    (round ? b : a).Call(round ? tp : dp, s);
    (round ? a : b).Call(round ? dp : tp, s);
    c.Sync(s);
    a.Check("a");
    b.Check("b");
  }
}

}  // namespace

JOB(recover_three, 3) { Three(c, false); }
JOB(recover_three_in_place, 3) { Three(c, true); }
JOB(recover_subset, 3) { Subset(c, false); }
JOB(recover_subset_in_place, 3) { Subset(c, true); }

JOB(recover_inversion, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 3001), b(c, c.All(), Kind::kAllGather, 517);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    if (GoesRound(c, step)) {
      b.Call(tp, s);
      a.Call(dp, s);
    } else {
      a.Call(dp, s);
      b.Call(tp, s);
    }
    c.Sync(s);
    a.Check("a");
    b.Check("b");
  }
  NCCL_OK(ncclCommDestroy(dp));
  NCCL_OK(ncclCommDestroy(tp));
}

// The default stream holds up every blocking stream, and is held up by each, so that the runtime begins
// nothing early on it: a second circle would hang.
void OnDefaultStream(job::Context& c, bool in_place) {
  cudaStream_t s = nullptr, blocking = nullptr;
  CUDA_OK(cudaStreamCreate(&blocking));
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 3001, in_place),
      b(c, c.All(), Kind::kAllGather, 517, in_place);
  float* const copy = c.Buffer(3001);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    const bool round = GoesRound(c, step) && step == 1;
    if (round) b.Call(tp, s);
    a.Call(dp, s);
    if (!round) b.Call(tp, s);
    CUDA_OK(cudaMemcpyAsync(copy, a.out(), a.out_bytes(), cudaMemcpyDeviceToDevice, blocking));
    c.Sync(blocking);
    a.CheckAt(copy, "a");
    b.Check("b");
  }
}

JOB(recover_default_stream, 2) { OnDefaultStream(c, false); }
JOB(recover_default_stream_in_place, 2) { OnDefaultStream(c, true); }

JOB(recover_large, 2) {
  // Larger than what one step of the runtime carries, of three kinds.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 700001), b(c, c.All(), Kind::kReduceScatter, 90001),
      d(c, c.All(), Kind::kAllGather, 120003);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    d.Fill(step);
    if (GoesRound(c, step)) {
      b.Call(tp, s);
      a.Call(dp, s);
      d.Call(dp, s);
    } else {
      a.Call(dp, s);
      d.Call(dp, s);
      b.Call(tp, s);
    }
    c.Sync(s);
    a.Check("a");
    b.Check("b");
    d.Check("d");
  }
}

JOB(recover_sized, 2) { Sized(c, false); }
JOB(recover_sized_in_place, 2) { Sized(c, true); }

JOB(recover_late_member, 2) {
  // A third communicator stands in front at the last rank, and is called by the other once the
  // recovery lets its host go on.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  ncclComm_t ep = c.MakeComm("ep", c.All());
  for (ncclComm_t comm : {dp, tp, ep}) c.Warm(comm, s);
  Checked a(c, c.All(), Kind::kAllReduce, 500), b(c, c.All(), Kind::kAllReduce, 600),
      x(c, c.All(), Kind::kAllReduce, 700);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    for (Checked* op : {&a, &b, &x}) op->Fill(step);
    if (GoesRound(c, step) && step == 1) {
      x.Call(ep, s);
      b.Call(tp, s);
      a.Call(dp, s);
    } else {
      a.Call(dp, s);
      b.Call(tp, s);
      c.Sync(s);
      x.Call(ep, s);
    }
    c.Sync(s);
    a.Check("a");
    b.Check("b");
    x.Check("x");
  }
}

JOB(recover_heavy, 2) {
  // One step, which the runtime takes long for.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 16 << 20), b(c, c.All(), Kind::kAllReduce, 16 << 20);
  c.Begin(s);
  a.Fill(1);
  b.Fill(1);
  const bool round = GoesRound(c, 1);
  (round ? b : a).Call(round ? tp : dp, s);
  (round ? a : b).Call(round ? dp : tp, s);
  c.Sync(s);
  a.Check("a");
  b.Check("b");
}

JOB(recover_events, 2) {
  cudaStream_t s1 = c.Stream(), s2 = c.Stream();
  cudaEvent_t e = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  Checked a(c, c.All(), Kind::kAllReduce, 4096), b(c, c.All(), Kind::kAllReduce, 1024);
  c.Begin(s1);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    const bool round = GoesRound(c, step);
    if (round) {
      b.Call(tp, s2);
    } else {
      a.Call(dp, s1);
    }
    CUDA_OK(cudaEventRecord(e, round ? s2 : s1));
    CUDA_OK(cudaStreamWaitEvent(round ? s1 : s2, e, 0));
    if (round) {
      a.Call(dp, s1);
    } else {
      b.Call(tp, s2);
    }
    c.Sync(s1);
    c.Sync(s2);
    a.Check("a");
    b.Check("b");
  }
}

JOB(recover_observed, 2) {
  // Another stream reads the first output as soon as an event between the two says that it is there;
  // the last one is read by work right behind it.
  cudaStream_t s = c.Stream(), reader = c.Stream();
  cudaEvent_t between = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 3000), b(c, c.All(), Kind::kAllReduce, 3000);
  float* const early = c.Buffer(3000);
  float* const late = c.Buffer(3000);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    Checked* const first = GoesRound(c, step) ? &b : &a;
    Checked* const second = first == &a ? &b : &a;
    first->Call(first == &a ? dp : tp, s);
    CUDA_OK(cudaEventRecord(between, s));
    CUDA_OK(cudaStreamWaitEvent(reader, between, 0));
    CUDA_OK(
        cudaMemcpyAsync(early, first->out(), first->out_bytes(), cudaMemcpyDeviceToDevice, reader));
    second->Call(second == &a ? dp : tp, s);
    CUDA_OK(cudaMemcpyAsync(late, second->out(), second->out_bytes(), cudaMemcpyDeviceToDevice, s));
    c.Sync(reader);
    c.Sync(s);
    first->CheckAt(early, "early");
    second->CheckAt(late, "late");
  }
}

// Pairs of communicators, each stuck once.
void Pairs(job::Context& c, const std::vector<std::string>& names) {
  cudaStream_t s = c.Stream();
  for (const std::string& name : names) {
    ncclComm_t dp = c.MakeComm(name + " dp", c.All());
    ncclComm_t tp = c.MakeComm(name + " tp", c.All());
    c.Warm(dp, s);
    c.Warm(tp, s);
    Checked a(c, c.All(), Kind::kAllReduce, 2000), b(c, c.All(), Kind::kAllReduce, 1000);
    a.Fill(1);
    b.Fill(1);
    const bool round = GoesRound(c, 1);
    (round ? b : a).Call(round ? tp : dp, s);
    (round ? a : b).Call(round ? dp : tp, s);
    c.Sync(s);
    a.Check("a");
    b.Check("b");
  }
}

JOB(recover_twice, 2) { Pairs(c, {"first", "second"}); }

JOB(recover_four_times, 2) { Pairs(c, {"first", "second", "third", "fourth"}); }

JOB(recover_goes_on, 2) {
  // The host runs ahead: it calls the next steps while the first is stuck.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  constexpr int kAhead = 6;
  float* const other = c.Buffer(1 << 18);
  std::vector<std::unique_ptr<Checked>> ops;
  for (int i = 0; i < 2 * kAhead; ++i) {
    ops.push_back(std::make_unique<Checked>(c, c.All(), Kind::kAllReduce, 700));
    ops.back()->Fill(i);
  }
  c.Begin(s);
  for (int i = 0; i < kAhead; ++i) {
    const bool round = !c.twin && i == 0 && c.rank == c.nranks - 1;
    ops[2 * i + (round ? 1 : 0)]->Call(round ? tp : dp, s);
    ops[2 * i + (round ? 0 : 1)]->Call(round ? dp : tp, s);
    CUDA_OK(cudaMemsetAsync(other, i, 1 << 20, s));
    // Some calls come before gordian has understood, some while it recovers, some after.
    c.SleepInUserCode(0.05);
  }
  c.Sync(s);
  for (const auto& op : ops) op->Check("op");
}

JOB(recover_groups, 2) {
  // Two operations that NCCL launches as one, against another communicator's.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 500), d(c, c.All(), Kind::kAllGather, 300),
      b(c, c.All(), Kind::kAllReduce, 900);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    d.Fill(step);
    b.Fill(step);
    const bool round = GoesRound(c, step);
    if (round) b.Call(tp, s);
    NCCL_OK(ncclGroupStart());
    a.Call(dp, s);
    d.Call(dp, s);
    NCCL_OK(ncclGroupEnd());
    if (!round) b.Call(tp, s);
    c.Sync(s);
    a.Check("a");
    d.Check("d");
    b.Check("b");
  }
}

JOB(recover_in_place, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 3000, true), b(c, c.All(), Kind::kAllGather, 517, true),
      d(c, c.All(), Kind::kReduceScatter, 901, true);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.Fill(step);
    b.Fill(step);
    d.Fill(step);
    if (GoesRound(c, step)) {
      b.Call(tp, s);
      d.Call(tp, s);
      a.Call(dp, s);
    } else {
      a.Call(dp, s);
      b.Call(tp, s);
      d.Call(tp, s);
    }
    c.Sync(s);
    a.Check("a");
    b.Check("b");
    d.Check("d");
  }
}

JOB(recover_group_in_place, 2) {
  // The stream gets the input after the call and before the group's end, which launches it.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 500, true), d(c, c.All(), Kind::kAllGather, 300, true),
      b(c, c.All(), Kind::kAllReduce, 900, true);
  float* const late = c.Buffer(500);
  c.Begin(s);
  for (int step = 0; step < kSteps; ++step) {
    a.FillAt(late, step);
    d.Fill(step);
    b.Fill(step);
    const bool round = GoesRound(c, step);
    if (round) b.Call(tp, s);
    NCCL_OK(ncclGroupStart());
    a.Call(dp, s);
    CUDA_OK(cudaMemcpyAsync(a.in(), late, a.in_bytes(), cudaMemcpyDeviceToDevice, s));
    d.Call(dp, s);
    NCCL_OK(ncclGroupEnd());
    if (!round) b.Call(tp, s);
    c.Sync(s);
    a.Check("a");
    d.Check("d");
    b.Check("b");
  }
}

JOB(recover_reused, 2) {
  // Of two operations in place a pool of 1 MiB just has the copies. Earlier steps have had other
  // inputs in the same buffers, and a third communicator goes on all the time that two are stuck.
  cudaStream_t s = c.Stream(), other = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  ncclComm_t ep = c.MakeComm("ep", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Warm(ep, other);
  constexpr size_t kCount = 131000;
  Checked a(c, c.All(), Kind::kAllReduce, kCount, true),
      b(c, c.All(), Kind::kAllReduce, kCount, true);
  float* const flag = c.Buffer(kCount);
  c.Begin(s);
  constexpr int kBefore = 8;
  for (int step = 0; step <= kBefore; ++step) {
    a.Fill(step);
    b.Fill(step);
    const bool round = !c.twin && c.rank == c.nranks - 1 && step == kBefore;
    (round ? b : a).Call(round ? tp : dp, s);
    (round ? a : b).Call(round ? dp : tp, s);
    // Until all ranks see that their stream has ended.
    float ended = 0;
    while (ended != static_cast<float>(c.nranks)) {
      ended = cudaStreamQuery(s) == cudaSuccess ? 1 : 0;
      CUDA_OK(cudaMemcpyAsync(flag, &ended, sizeof ended, cudaMemcpyHostToDevice, other));
      NCCL_OK(ncclAllReduce(flag, flag, kCount, ncclFloat, ncclSum, ep, other));
      CUDA_OK(cudaMemcpyAsync(&ended, flag, sizeof ended, cudaMemcpyDeviceToHost, other));
      c.Sync(other);
    }
    a.Check("a");
    b.Check("b");
  }
}

JOB(recover_small_pool, 2) {
  // For more of the same buffer than an earlier step has reduced, a pool of 1 MiB has no room.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  float* const x = c.Buffer(300001);
  float* const y = c.Buffer(100);
  c.Begin(s);
  NCCL_OK(ncclAllReduce(x, x, 200000, ncclFloat, ncclSum, dp, s));
  c.Sync(s);
  const bool round = GoesRound(c, 1);
  if (round) NCCL_OK(ncclAllReduce(y, y, 100, ncclFloat, ncclSum, tp, s));
  NCCL_OK(ncclAllReduce(x, x, 300001, ncclFloat, ncclSum, dp, s));
  if (!round) NCCL_OK(ncclAllReduce(y, y, 100, ncclFloat, ncclSum, tp, s));
  c.Sync(s);
}

JOB(recover_aborted, 2) {
  // As recover_heavy; by SIGUSR1 a rank aborts one of its communicators.
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  Checked a(c, c.All(), Kind::kAllReduce, 16 << 20, true),
      b(c, c.All(), Kind::kAllReduce, 16 << 20, true);
  c.Begin(s);
  a.Fill(1);
  b.Fill(1);
  std::atomic<bool> aborts = false;
  std::thread([&] {
    int which = 0;
    sigwait(&wanted, &which);
    aborts = true;
    ncclCommAbort(dp);
  }).detach();
  const bool round = GoesRound(c, 1);
  (round ? b : a).Call(round ? tp : dp, s);
  (round ? a : b).Call(round ? dp : tp, s);
  c.Sync(s);
  // What was reduced on the communicator that this rank has aborted may be anything.
  if (!aborts) a.Check("a");
  b.Check("b");
  if (aborts) c.SleepInUserCode(3);  // it has other things to do than to end
  std::_Exit(0);
}

JOB(recover_feeds, 2) {
  // The second operation reads what the first writes: no order but the program's is right.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  float* const x = c.Buffer(1000);
  float* const y = c.Buffer(1000);
  float* const z = c.Buffer(1000);
  c.Begin(s);
  const bool round = GoesRound(c, 1);
  NCCL_OK(ncclAllReduce(x, y, 1000, ncclFloat, ncclSum, round ? tp : dp, s));
  NCCL_OK(ncclAllReduce(y, z, 1000, ncclFloat, ncclSum, round ? dp : tp, s));
  c.Sync(s);
}

JOB(recover_work_between, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  const bool round = GoesRound(c, 1);
  c.AllReduce(round ? tp : dp, s);
  c.BusyKernel(s, 0.001);
  c.AllReduce(round ? dp : tp, s);
  c.Sync(s);
}
