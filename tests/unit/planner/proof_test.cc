// D4: what the proof accepts and refuses, on small recorded jobs that are written down here.
#include "planner/proof/proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace gordian::planner {
namespace {

using model::Call;
using model::CallRecord;
using model::RecordKind;
using model::WaitKind;
using model::WorkKind;

constexpr model::StreamId kCompute = 1, kGradients = 2, kTensor = 3;
constexpr model::CommId kDp = 1, kTp = 2;

// Writes the records of one process.
class Writer {
 public:
  Writer(JobTrace* trace, model::ProcessId process, int rank, int ranks)
      : trace_(*trace), process_(process) {
    trace_.OnProcess(process, rank);
    for (const model::CommId comm : {kDp, kTp}) {
      CallRecord init = Next(RecordKind::kBegin, Call::kCommInit);
      init.payload =
          ring::CommInitPayload{.comm = comm, .nranks = ranks, .rank = rank, .uid = 100 + comm};
      trace_.OnRecord(init);
      CallRecord text = Next(RecordKind::kText, Call::kCommInit);
      text.payload = comm == kDp ? ring::TextPayload{.comm = comm, .text = "dp"}
                                 : ring::TextPayload{.comm = comm, .text = "tp"};
      trace_.OnRecord(text);
      CallRecord end = Next(RecordKind::kEnd, Call::kCommInit);
      end.payload = ring::EndPayload{.comm = comm, .nranks = ranks, .rank = rank, .device = -1};
      trace_.OnRecord(end);
    }
  }
  void AllReduce(model::CommId comm, model::StreamId stream, uint64_t count) {
    CallRecord op = Next(RecordKind::kBegin, Call::kAllReduce);
    op.payload = ring::OperationPayload{
        .comm = comm, .stream = stream, .count = count, .sequence = sequence_[comm]++};
    trace_.OnRecord(op);
    CallRecord end = Next(RecordKind::kEnd, Call::kAllReduce);
    end.payload = ring::EndPayload{.stream = stream, .ordinal = ++ordinal_[stream]};
    trace_.OnRecord(end);
  }
  void Kernel(model::StreamId stream) { Work(WorkKind::kKernels, stream, 0, ++ordinal_[stream]); }
  void Record(uint64_t event, model::StreamId stream) {
    Work(WorkKind::kEventRecord, stream, event, ordinal_[stream]);
  }
  void WaitEvent(uint64_t event, model::StreamId stream) {
    Work(WorkKind::kEventWait, stream, event, ++ordinal_[stream]);
  }
  void GraphLaunch(model::StreamId stream) {
    Work(WorkKind::kGraphLaunch, stream, 7, ++ordinal_[stream]);
  }
  void WaitSignal(model::CommId comm, model::StreamId stream) {
    CallRecord wait = Next(RecordKind::kBegin, Call::kWaitSignal);
    wait.payload = ring::SignalPayload{.comm = comm, .stream = stream, .peer = 0, .count = 1};
    trace_.OnRecord(wait);
    CallRecord end = Next(RecordKind::kEnd, Call::kWaitSignal);
    end.payload = ring::EndPayload{.stream = stream, .ordinal = ++ordinal_[stream]};
    trace_.OnRecord(end);
  }
  void HostWait(uint64_t event) {
    CallRecord wait = Next(RecordKind::kBegin, Call::kHostWait);
    wait.payload = ring::HostWaitPayload{.kind = WaitKind::kEvent, .event = event};
    trace_.OnRecord(wait);
    now_ += 1'000'000;
    trace_.OnRecord(Next(RecordKind::kEnd, Call::kHostWait));
  }
  void Pause() { now_ += 50'000'000; }

 private:
  CallRecord Next(RecordKind kind, Call call) {
    CallRecord record;
    record.process = process_;
    record.thread = 1;
    record.kind = kind;
    record.call = call;
    record.order = ++order_;
    record.time_ns = now_ += 10'000;
    return record;
  }
  void Work(WorkKind work, model::StreamId stream, uint64_t event, uint64_t ordinal) {
    CallRecord record = Next(RecordKind::kPoint, Call::kStreamWork);
    record.payload =
        ring::WorkPayload{.stream = stream, .kind = work, .ordinal = ordinal, .event = event};
    trace_.OnRecord(record);
  }

  JobTrace& trace_;
  const model::ProcessId process_;
  uint64_t order_ = 0, now_ = 1'000'000'000;
  std::map<model::CommId, uint64_t> sequence_;
  std::map<model::StreamId, uint64_t> ordinal_;
};

enum class Shape {
  kPlain,                // an all-reduce of tp in the forward pass
  kTensorNeedsGradient,  // tp's all-reduce waits for bucket 3's reduction, amid the backward pass
  kGraphs,
  kSignals,
  kUneven,  // rank 1 makes one all-reduce of tp more each iteration
};

constexpr uint64_t kReady = 50, kReduced = 60, kLoss = 70;

void WriteJob(JobTrace* trace, int ranks, Shape shape) {
  for (int r = 0; r < ranks; ++r) {
    Writer w(trace, static_cast<model::ProcessId>(r) + 1, r, ranks);
    for (int t = 0; t < 6; ++t) {
      w.Pause();
      w.Kernel(kCompute);
      w.AllReduce(kTp, kTensor, 16);
      if (shape == Shape::kUneven && r == 1) w.AllReduce(kTp, kTensor, 16);
      if (shape == Shape::kGraphs) w.GraphLaunch(kCompute);
      if (shape == Shape::kSignals) w.WaitSignal(kTp, kTensor);
      w.Record(kLoss, kCompute);
      w.HostWait(kLoss);
      for (int b = 3; b >= 1; --b) {
        w.Kernel(kCompute);
        w.Record(kReady + b, kCompute);
        w.WaitEvent(kReady + b, kGradients);
        w.AllReduce(kDp, kGradients, 1000u * b);
        w.Record(kReduced + b, kGradients);
        if (b == 3 && shape == Shape::kTensorNeedsGradient) {
          w.WaitEvent(kReduced + b, kTensor);
          w.AllReduce(kTp, kTensor, 32);
          w.Record(kReduced, kTensor);
          w.WaitEvent(kReduced, kCompute);  // the rest of the backward pass needs it
        }
      }
      w.WaitEvent(kReduced + 1, kCompute);
    }
  }
  trace->Finish();
}

// Communication for one and a half iterations.
std::vector<Bucket> Buckets() {
  return {{2000, 6000, 2000, 1000}, {0, 2000, 6000, 2000}, {0, 1000, 8000, 3000}};
}

Plan PlanOf(const std::vector<Bucket>& buckets, int links = 1) {
  std::string error;
  std::optional<Plan> plan = MakePlan(buckets, {.links = links}, &error);
  EXPECT_TRUE(plan) << error;
  return std::move(*plan);
}

Proof ProveJob(Shape shape, const std::vector<Bucket>& buckets, int links = 1, int resident = 0,
               int ranks = 2) {
  JobTrace trace;
  WriteJob(&trace, ranks, shape);
  std::string error;
  const std::optional<BucketCalls> calls = FindBuckets(trace, {.comm = "dp"}, &error);
  EXPECT_TRUE(calls) << error;
  EXPECT_EQ(calls->buckets, 3);
  const Plan plan = PlanOf(buckets, links);
  return Prove({.plans = {&plan}, .trace = &trace, .calls = &*calls, .resident = resident});
}

TEST(D4, AcceptedBesideAnInnocentCommunicator) {
  for (const int links : {1, 2}) {
    const Proof proof = ProveJob(Shape::kPlain, Buckets(), links);
    EXPECT_TRUE(proof.accepted) << proof.refusal << ": " << proof.detail;
    EXPECT_EQ(proof.models.size(), 3u);
    EXPECT_GT(proof.operations, 50u);
    EXPECT_EQ(proof.streams, links + 1);
    EXPECT_TRUE(proof.cycle.empty());
  }
}

// The gradient that tp's all-reduce needs is put off beyond the pass that needs the all-reduce.
TEST(D4, RefusedWhereAnOperationNeedsAGradientThatIsPutOff) {
  const Proof proof = ProveJob(Shape::kTensorNeedsGradient, Buckets());
  EXPECT_FALSE(proof.accepted);
  EXPECT_EQ(proof.refusal, "cycle") << proof.detail;
  ASSERT_GE(proof.cycle.size(), 2u);
  bool tensor = false, gradient = false;
  for (size_t i = 0; i < proof.cycle.size(); ++i) {
    const ProofArrow& arrow = proof.cycle[i];
    const ProofArrow& next = proof.cycle[(i + 1) % proof.cycle.size()];
    EXPECT_EQ(arrow.waits_for, next.what);
    EXPECT_EQ(arrow.waits_for_rank, next.rank);
    tensor = tensor || arrow.what.find("on tp") != std::string::npos;
    gradient = gradient || arrow.what.find("bucket 3") != std::string::npos;
  }
  EXPECT_TRUE(tensor);
  EXPECT_TRUE(gradient);
}

// The same job, when its gradients all go in the pass that makes them: bucket 3 has time enough.
TEST(D4, AcceptedWhereItGoesAtOnce) {
  const std::vector<Bucket> buckets = {
      {4000, 100, 100, 1000}, {0, 5000, 100, 2000}, {0, 5000, 100, 3000}};
  const Proof proof = ProveJob(Shape::kTensorNeedsGradient, buckets);
  EXPECT_TRUE(proof.accepted) << proof.refusal << ": " << proof.detail;
}

TEST(D4, WhatCannotBeFollowedIsNotAccepted) {
  EXPECT_EQ(ProveJob(Shape::kGraphs, Buckets()).refusal, "not-provable");
  EXPECT_EQ(ProveJob(Shape::kUneven, Buckets()).refusal, "not-provable");
  EXPECT_EQ(ProveJob(Shape::kSignals, Buckets()).refusal, "not-provable");
}

// Three streams of collectives on GPUs that hold two at once: three ranks can each hold another
// two.
TEST(D4, MultiprocessorsAreShared) {
  EXPECT_TRUE(ProveJob(Shape::kPlain, Buckets(), 2, 3, 3).accepted);
  EXPECT_EQ(ProveJob(Shape::kPlain, Buckets(), 2, 2, 3).refusal, "capacity");
  EXPECT_TRUE(
      ProveJob(Shape::kPlain, Buckets(), 2, 2, 2).accepted);  // two ranks share one of the three
  EXPECT_EQ(ProveJob(Shape::kPlain, Buckets(), 2, 1, 2).refusal, "capacity");
}

TEST(D4, PlansThatDifferAreAMismatch) {
  const Plan a = PlanOf({{4, 1, 6, 30}, {3, 1, 5, 40}, {3, 1, 5, 50}});
  const Plan b = PlanOf({{4, 1, 6, 30}, {3, 1, 5, 40}, {3, 1, 6, 50}});
  EXPECT_NE(a.hash, b.hash);
  const Proof proof = Prove({.plans = {&a, &b}});
  EXPECT_FALSE(proof.accepted);
  EXPECT_EQ(proof.refusal, "mismatch");
  EXPECT_NE(proof.detail.find("rank 0"), std::string::npos);
  EXPECT_NE(proof.detail.find("rank 1"), std::string::npos);
  EXPECT_TRUE(Prove({.plans = {&a, &a}}).accepted);
  EXPECT_TRUE(Prove({.plans = {&b}, .ranks = 5}).accepted);
}

// Ranks measured different times, and would do the same.
TEST(D4, OneScheduleOnePlan) {
  const Plan a = PlanOf({{40, 10, 60, 30}, {30, 10, 50, 40}, {30, 10, 50, 50}});
  const Plan b = PlanOf({{40, 10, 59, 30}, {30, 11, 49, 40}, {31, 10, 50, 50}});
  ASSERT_NE(a.items[0].time.comm, b.items[0].time.comm);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_TRUE(Prove({.plans = {&a, &b}}).accepted);
  // With another number of pieces they would not, also where elements are not known.
  const Plan two = PlanOf({{40, 10, 70, 0}, {30, 10, 50, 0}, {30, 10, 50, 0}});
  const Plan three = PlanOf({{40, 10, 130, 0}, {30, 10, 50, 0}, {30, 10, 50, 0}});
  ASSERT_EQ(two.items.size() + 1, three.items.size());
  EXPECT_NE(two.hash, three.hash);
  EXPECT_FALSE(Prove({.plans = {&two, &three}}).accepted);
}

TEST(D4, APartitionNeedsElements) {
  PlanOptions options;
  options.partition = 1000;
  std::string error;
  EXPECT_FALSE(MakePlan({{40, 10, 60, 3000}, {30, 10, 50, 0}}, options, &error));
  EXPECT_NE(error.find("bucket 2"), std::string::npos) << error;
  EXPECT_NE(error.find("elements"), std::string::npos) << error;
  EXPECT_TRUE(MakePlan({{40, 10, 60, 3000}, {30, 10, 50, 100}}, options, &error)) << error;
}

TEST(D4, AStartupThatNothingFitsBesideIsAnError) {
  PlanOptions options;
  options.startup = 1000;
  std::string error;
  EXPECT_FALSE(MakePlan({{40, 10, 2000, 30}, {30, 10, 50, 40}}, options, &error));
  EXPECT_NE(error.find("--startup"), std::string::npos) << error;
}

TEST(D4, OneInputOnePlan) {
  const Plan plan = PlanOf(Buckets(), 2);
  EXPECT_EQ(plan.hash, PlanOf(Buckets(), 2).hash);
  EXPECT_EQ(plan.hash, HashOf(plan));
  std::vector<Bucket> other = Buckets();
  other[0].comm += 1000;
  EXPECT_NE(plan.hash, PlanOf(other, 2).hash);
}

}  // namespace
}  // namespace gordian::planner
