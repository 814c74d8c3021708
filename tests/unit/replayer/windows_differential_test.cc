// Windows of random recorded jobs, and the predictions made of them, against naive twins: one reads
// the windows by maps over all calls, one predicts each window by itself.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/trace_file.h"
#include "replayer/predict/predict.h"
#include "testing/jobs/recorded_job.h"
#include "tests/unit/replayer/naive_recorded_orders.h"

namespace gordian::replayer {
namespace {

using gordian::testing::RecordedJob;
using testing::NaiveReadOrders;

constexpr uint64_t kFirst = 0x11, kSecond = 0x22, kLate = 0x33;

// GORDIAN_RANDOM_JOBS=20000 makes as many.
int Jobs() {
  const char* const jobs = getenv("GORDIAN_RANDOM_JOBS");
  return jobs == nullptr ? 400 : atoi(jobs);
}

// A step of a thread: what it calls there, at every rank of the communicator.
struct Call {
  enum What { kCollective, kTransfer, kWait, kEvent, kEndWait } what = kCollective;
  uint64_t comm = kFirst;
  uint32_t thread = 1, stream = 1;
  uint64_t site = 0, count = 1024;
  bool grouped = false;  // with the next one, if that is of its thread
};

class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : random_(seed), ranks_(2 + Below(4) / 3), job_(ranks_) {
    std::vector<int> all, two = {0, 1};
    for (int rank = 0; rank < ranks_; ++rank) all.push_back(rank);
    job_.MakeCommunicator(kFirst, all, "first");
    job_.MakeCommunicator(kSecond, two, "second");
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int stream = 0; stream < 2; ++stream) job_.MakeStream(rank);
    }
    Warm();
    if (Below(8) == 0) {
      Steps(1 + Below(4));
      job_.MakeCommunicator(kLate, two, "late");
    }
    Steps(4 + Below(24));
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const uint32_t stream : {1u, 2u}) Wait(rank, stream);
    }
    job_.AllDone();
    job_.Round();
    for (int rank = 0; rank < ranks_; ++rank) job_.EndProcess(rank, 0);
    job_.EndJob(0);
  }

  void Write(const std::string& path) {
    StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
    ASSERT_TRUE(writer.ok());
    for (const v1::Event& event : gordian::testing::AsCollected(job_.Take()))
      ASSERT_TRUE((*writer)->Append(event).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }

 private:
  int Below(uint64_t n) { return static_cast<int>(random_() % n); }

  void Warm() {
    if (Below(3) == 0) return;
    for (const uint64_t comm : {kFirst, kSecond}) {
      for (int rank = 0; rank < (comm == kFirst ? ranks_ : 2); ++rank)
        job_.Collective(rank, "ncclAllReduce", comm, 1, 1024);
    }
    job_.AllDone();
    for (int rank = 0; rank < ranks_; ++rank) Wait(rank, 1);
  }

  void Wait(int rank, uint32_t stream) {
    job_.BeginSynchronize(rank, stream);
    job_.EndSynchronize(rank);
  }

  // The same step again and again, now and then a little different.
  void Steps(int count) {
    std::vector<Call> step;
    const int threads = 1 + Below(4) / 1 % 2, calls = 1 + Below(6);
    for (int i = 0; i < calls; ++i) {
      Call call;
      const int what = Below(8);
      call.what = what < 4   ? Call::kCollective
                  : what < 5 ? Call::kTransfer
                  : what < 6 ? Call::kWait
                  : what < 7 ? Call::kEvent
                             : Call::kEndWait;
      call.comm = Below(2) == 0 ? kFirst : kSecond;
      call.thread = 1 + static_cast<uint32_t>(Below(static_cast<uint64_t>(threads)));
      call.stream = Below(4) == 0 ? 1 + static_cast<uint32_t>(Below(2)) : call.thread;
      call.site = RecordedJob::kModuleStart + 0x100 * static_cast<uint64_t>(1 + i);
      call.count = 512 << Below(3);
      call.grouped = Below(3) == 0;
      step.push_back(call);
    }
    if (Below(2) == 0) {
      for (Call& call : step) call.stream = 1;
    }
    const bool noise = Below(2) == 0, changes = Below(2) == 0;
    for (int i = 0; i < count; ++i) {
      std::vector<Call> now = step;
      if (changes && Below(4) == 0) Change(&now[static_cast<size_t>(i) % now.size()]);
      for (int rank = 0; rank < ranks_; ++rank) Step(rank, now, noise && Below(6) == 0);
      if (Below(4) == 0) job_.Round();
    }
  }

  // The call is another one this time, at all ranks.
  void Change(Call* call) {
    switch (Below(4)) {
      case 0:
        call->count *= 16;
        return;
      case 1:
        call->site += 0x1000;
        return;
      case 2:
        call->comm = call->comm == kFirst ? kSecond : kFirst;
        return;
      default:
        call->stream = 3 - call->stream;
        return;
    }
  }

  // `mixed`: the threads take turns otherwise.
  void Step(int rank, const std::vector<Call>& step, bool mixed) {
    std::vector<Call> calls;
    for (const Call& call : step) {
      if (rank < 2 || call.comm != kSecond || call.what > Call::kTransfer) calls.push_back(call);
    }
    if (mixed) {
      std::stable_sort(calls.begin(), calls.end(),
                       [](const Call& a, const Call& b) { return a.thread > b.thread; });
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      const bool pair = calls[i].grouped && i + 1 < calls.size() &&
                        calls[i].thread == calls[i + 1].thread &&
                        calls[i].what <= Call::kTransfer && calls[i + 1].what <= Call::kTransfer;
      job_.AsThread(rank, calls[i].thread);
      if (pair) job_.BeginGroup(rank);
      Make(rank, calls[i]);
      if (!pair) continue;
      Make(rank, calls[++i]);
      job_.EndGroup(rank);
    }
    // What rounds report of streams is that they have nothing to do.
    for (const uint32_t stream : {1u, 2u}) job_.Done(rank, stream, job_.Enqueued(rank, stream));
  }

  void Make(int rank, const Call& call) {
    job_.CallSiteOf(rank, call.site);
    switch (call.what) {
      case Call::kCollective:
        job_.Collective(rank, "ncclAllReduce", call.comm, call.stream, call.count);
        return;
      case Call::kTransfer:
        if (rank == 0) job_.Send(rank, call.comm, 1, call.stream, call.count);
        if (rank == 1) job_.Receive(rank, call.comm, 0, call.stream, call.count);
        return;
      case Call::kWait:
        return Wait(rank, call.stream);
      case Call::kEvent:
        job_.RecordEvent(rank, call.stream, 0x77);
        return;
      case Call::kEndWait:
        job_.WaitEvent(rank, call.stream, 0x77);
        return;
    }
  }

  std::mt19937_64 random_;
  const int ranks_;
  RecordedJob job_;
};

class WindowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gordian-windows-XXXXXX";
    const int fd = mkstemp(name);
    ASSERT_GE(fd, 0);
    close(fd);
    path_ = name;
  }
  void TearDown() override { unlink(path_.c_str()); }

  std::string path_;
};

std::vector<RecordedOrders> All(const std::function<Status(const OrdersSink&)>& read) {
  std::vector<RecordedOrders> all;
  const Status status = read([&](RecordedOrders&& orders) {
    all.push_back(std::move(orders));
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return all;
}

void ExpectEqual(const RecordedOrders& a, const RecordedOrders& b) {
  EXPECT_TRUE(a.schedule == b.schedule);
  EXPECT_EQ(a.recorded, b.recorded);
  EXPECT_EQ(a.moments, b.moments);
  EXPECT_EQ(a.held, b.held);
  EXPECT_EQ(a.unseen, b.unseen);
  EXPECT_TRUE(a.turns == b.turns || !a.free);
  EXPECT_TRUE(a.sharing == b.sharing);
  EXPECT_EQ(a.free, b.free);
  EXPECT_EQ(a.ready_sites, b.ready_sites);
  EXPECT_EQ(a.polling, b.polling);
  EXPECT_EQ(a.before, b.before);
  EXPECT_EQ(a.calls, b.calls);
  EXPECT_EQ(a.not_judged, b.not_judged);
}

void ExpectEqual(const std::vector<Prediction>& a, const std::vector<Prediction>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].sites, b[i].sites);
    EXPECT_EQ(a[i].cycle, b[i].cycle);
    EXPECT_EQ(a[i].alike, b[i].alike);
    EXPECT_TRUE(a[i].witness == b[i].witness);
    EXPECT_EQ(a[i].begun, b[i].begun);
    EXPECT_EQ(a[i].doubt, b[i].doubt);
    ASSERT_EQ(a[i].orders.size(), b[i].orders.size());
    for (size_t j = 0; j < a[i].orders.size(); ++j) {
      EXPECT_EQ(a[i].orders[j].first, b[i].orders[j].first);
      EXPECT_EQ(a[i].orders[j].second, b[i].orders[j].second);
      EXPECT_EQ(a[i].orders[j].as_recorded, b[i].orders[j].as_recorded);
    }
  }
}

TEST_F(WindowsTest, AreThoseOfTheNaiveReader) {
  size_t windows = 0, calls = 0, refused = 0;
  for (int seed = 1; seed <= Jobs(); ++seed) {
    SCOPED_TRACE(seed);
    RandomJob(static_cast<uint64_t>(seed)).Write(path_);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    OrdersOptions options;
    options.window = 6 + random() % 60;
    if (random() % 3 == 0) options.max_calls = 20 + random() % 100;
    options.threads_ordered = random() % 8 == 0;
    const auto now =
        All([&](const OrdersSink& sink) { return ReadOrders(path_, {}, options, sink); });
    const auto then =
        All([&](const OrdersSink& sink) { return NaiveReadOrders(path_, options, sink); });
    ASSERT_EQ(now.size(), then.size());
    for (size_t i = 0; i < now.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectEqual(now[i], then[i]);
      calls += now[i].calls;
      refused += now[i].schedule.ranks.empty();
    }
    windows += now.size();
    ASSERT_FALSE(HasFailure());
  }
  std::printf("%zu windows of %zu calls, %zu of them without\n", windows, calls, refused);
  EXPECT_GT(calls, static_cast<size_t>(Jobs()) * 20);
}

TEST_F(WindowsTest, ThatAreAlikeHaveThePredictionsOfOne) {
  size_t windows = 0, alike = 0, found = 0, judged = 0;
  for (int seed = 1; seed <= Jobs(); ++seed) {
    SCOPED_TRACE(seed);
    RandomJob(static_cast<uint64_t>(seed)).Write(path_);
    OrdersOptions options;
    options.window = 6 + static_cast<size_t>(seed) % 31;
    PredictOptions predict{.max_states = seed % 5 == 0 ? 300u : 5'000u};
    Predictions each;
    for (const RecordedOrders& window :
         All([&](const OrdersSink& sink) { return ReadOrders(path_, {}, options, sink); })) {
      Predictions predictions = Predict(window, predict);
      predict.max_states -= std::min(predict.max_states - 1, predictions.states);
      Merge(std::move(predictions), window.free, &each);
    }
    JobPredictor predictor({.max_states = seed % 5 == 0 ? 300u : 5'000u});
    options.knows = [&](size_t window) { return predictor.Knows(window); };
    const auto folded = All([&](const OrdersSink& sink) {
      return ReadOrders(path_, {}, options, [&](RecordedOrders&& orders) {
        predictor.Take(orders);
        return sink(std::move(orders));
      });
    });
    const Predictions& all = predictor.predictions();
    EXPECT_EQ(all.judged, each.judged);
    EXPECT_EQ(all.not_judged, each.not_judged);
    EXPECT_EQ(all.complete, each.complete);
    EXPECT_EQ(all.candidates, each.candidates);
    EXPECT_EQ(all.states, each.states);
    EXPECT_EQ(all.ranks, each.ranks);
    EXPECT_EQ(all.calls, each.calls);
    EXPECT_EQ(all.left_out, each.left_out);
    EXPECT_EQ(all.windows, each.windows);
    ExpectEqual(all.predicted, each.predicted);
    ExpectEqual(all.unconfirmed, each.unconfirmed);
    windows += folded.size();
    for (const RecordedOrders& window : folded) alike += window.as.has_value();
    found += all.predicted.size() + all.unconfirmed.size();
    judged += all.judged;
    ASSERT_FALSE(HasFailure());
  }
  std::printf("%zu windows, %zu of them known; %zu of %d jobs judged, %zu predictions\n", windows,
              alike, judged, Jobs(), found);
  EXPECT_GT(alike, windows / 10);
  EXPECT_GT(found, 0u);
}

// Threads have one order, and the job says that calls at a line come in any: windows of calls.
TEST_F(WindowsTest, OfCallsThatComeInAnyOrder) {
  const auto write = [&](const std::string& ready) {
    RecordedJob job(2, "/opt/job/train");
    job.MakeCommunicator(kFirst, {0, 1}, "first");
    for (const int rank : {0, 1}) job.MakeStream(rank);
    for (int step = 0; step < 20; ++step) {
      for (const int rank : {0, 1}) {
        job.CallSiteOf(rank, RecordedJob::kModuleStart + 0x100);
        job.Collective(rank, "ncclAllReduce", kFirst, 1, 64);
        job.Collective(rank, "ncclAllReduce", kFirst, 1, 128);
        job.BeginSynchronize(rank, 1);
        job.EndSynchronize(rank);
      }
    }
    job.Round();
    for (const int rank : {0, 1}) job.EndProcess(rank, 0);
    job.EndJob(0);
    v1::TraceHeader header;
    if (!ready.empty()) header.add_environment("GORDIAN_READINESS_ORDERED=" + ready);
    StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path_, header);
    ASSERT_TRUE(writer.ok());
    for (const v1::Event& event : job.events()) ASSERT_TRUE((*writer)->Append(event).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  };
  const auto predict = [&](size_t ready_window) {
    JobPredictor predictor({});
    const OrdersOptions options{.ready_window = ready_window,
                                .knows = [&](size_t window) { return predictor.Knows(window); }};
    const Status status = ReadOrders(path_, {}, options, [&](RecordedOrders&& orders) {
      predictor.Take(orders);
      return true;
    });
    EXPECT_TRUE(status.ok());
    return predictor.Release();
  };
  write("");
  std::string site;
  const auto windows = All([&](const OrdersSink& sink) { return ReadOrders(path_, {}, {}, sink); });
  ASSERT_EQ(windows.size(), 1u);
  site = windows.front().schedule.ranks.front().threads.front().ops.front().site;
  ASSERT_FALSE(site.empty());
  EXPECT_TRUE(predict(100'000).complete) << "nothing is free";
  write(site.substr(0, site.find(' ')));
  for (const size_t window : {size_t{100'000}, size_t{18}}) {
    const Predictions found = predict(window);
    EXPECT_TRUE(found.judged && found.not_judged.empty());
    EXPECT_EQ(found.calls, 120u);
    EXPECT_EQ(found.windows, window == 18 ? 7u : 1u);
    EXPECT_FALSE(found.complete);
    ASSERT_EQ(found.unconfirmed.size(), 1u);
    EXPECT_EQ(found.unconfirmed.front().freedom, Freedom::kReadinessOrdered);
  }
}

}  // namespace
}  // namespace gordian::replayer
