// How long `gordian predict` takes from opening a trace to its findings, and how much memory: for
// windows that are alike once ("now"), and for each window by itself.
//
//   bench_predict [CALLS ...]      (default: 1000000 10000000)
//
// The trace: two ranks of two threads each that train. A step has eight all-reduces of one thread,
// two all-gathers of another one, on another communicator, and a wait of each for its stream. The
// threads have streams of their own ("apart": no order hangs), or share one ("together": some do).
// They take turns in the same way in each step ("alike"), or at random ("mixed").
//
// The last job has 16,384 ranks, whose calls are one window.
//
// The ratio comes first: processor time of each window by itself, by that now. Both read the trace
// in the same way. Exits with 1 where a finding is wrong, or the two differ.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/trace_file.h"
#include "replayer/predict/predict.h"
#include "replayer/predict/recorded_orders.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr uint64_t kDp = 1, kTp = 2;
constexpr uint32_t kTrains = 1, kLoads = 2;  // threads
constexpr size_t kCallsOfStep = 12;          // of a rank
constexpr int kManyRanks = 16'384;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_predict: %s\n", what.c_str());
  exit(1);
}

void Append(TraceWriter* writer, testing::RecordedJob* job) {
  for (const v1::Event& event : testing::AsCollected(job->Drain())) {
    if (Status status = writer->Append(event); !status.ok()) Fail(status.ToString());
  }
}

struct Job {
  bool together = false;  // on one stream
  bool mixed = false;
  int ranks = 2;
  size_t window = replayer::OrdersOptions().window;
};

void Write(const std::string& path, size_t calls, const Job& kind) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  if (!writer.ok()) Fail(writer.status().ToString());
  testing::RecordedJob job(kind.ranks);
  std::vector<int> all;
  for (int rank = 0; rank < kind.ranks; ++rank) all.push_back(rank);
  job.MakeCommunicator(kDp, all, "dp");
  job.MakeCommunicator(kTp, all, "tp");
  for (int rank = 0; rank < kind.ranks; ++rank) {
    const uint32_t stream = job.MakeStream(rank), other = job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", kDp, stream, 1024);
    job.Collective(rank, "ncclAllGather", kTp, kind.together ? stream : other, 1024);
  }
  job.AllDone();
  const uint32_t of_loads = kind.together ? 1 : 2;
  const auto call = [&](int rank, bool trains, int number) {
    const int last = trains ? 8 : 2;
    const uint32_t stream = trains ? 1 : of_loads;
    job.AsThread(rank, trains ? kTrains : kLoads);
    if (number < last) {
      job.Collective(rank, trains ? "ncclAllReduce" : "ncclAllGather", trains ? kDp : kTp, stream,
                     1024);
    } else {
      job.BeginSynchronize(rank, stream);
      job.EndSynchronize(rank);
    }
  };
  std::vector<bool> turns = {true, true, true,  true,  true,  true,
                             true, true, false, false, false, true};
  std::mt19937 random(1);
  for (size_t step = 0; step < calls / kCallsOfStep / all.size(); ++step) {
    for (int rank = 0; rank < kind.ranks; ++rank) {
      // On one stream, all ranks must have one order.
      if (kind.mixed && (rank == 0 || !kind.together))
        std::shuffle(turns.begin(), turns.end(), random);
      int made[] = {0, 0};
      for (const bool trains : turns) call(rank, trains, made[trains]++);
    }
    if (step % 100 == 0) {
      job.Round();
      Append(writer->get(), &job);
    }
  }
  job.AllDone();
  job.Round();
  for (int rank = 0; rank < kind.ranks; ++rank) job.EndProcess(rank, 0);
  job.EndJob(0);
  Append(writer->get(), &job);
  if (Status status = (*writer)->Close(); !status.ok()) Fail(status.ToString());
}

struct Measured {
  double seconds = 0;  // by the clock
  size_t calls = 0;
  size_t found = 0, confirmed = 0;  // deadlocks
  size_t windows = 0;
  double processor_s = 0;
  long peak_mib = 0;
};

Measured Predict(const std::string& path, size_t window, bool each) {
  Measured measured;
  const auto begin = std::chrono::steady_clock::now();
  replayer::JobPredictor predictor({});
  replayer::OrdersOptions options;
  options.max_calls = SIZE_MAX;
  options.window = window;
  if (!each) options.knows = [&](size_t window) { return predictor.Knows(window); };
  const Status status =
      replayer::ReadOrders(path, {}, options, [&](replayer::RecordedOrders&& orders) {
        predictor.Take(orders);
        return true;
      });
  if (!status.ok()) Fail(status.ToString());
  const replayer::Predictions& all = predictor.predictions();
  if (!all.judged)
    Fail("not judged: " + (all.not_judged.empty() ? "no reason" : all.not_judged.front()));
  measured.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  measured.windows = all.windows;
  measured.calls = all.calls;
  measured.confirmed = all.predicted.size();
  for (const auto* const list : {&all.predicted, &all.unconfirmed}) {
    for (const replayer::Prediction& one : *list) measured.found += 1 + one.alike;
  }
  return measured;
}

// Does the work in a process of its own; returns what that took.
template <typename Work>
rusage InChild(const Work& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) Fail("a measurement failed");
  return usage;
}

Measured MeasureOne(const std::string& path, size_t window, bool each) {
  int ends[2];
  if (pipe(ends) != 0) Fail("no pipe");
  const rusage usage = InChild([&] {
    const Measured measured = Predict(path, window, each);
    if (write(ends[1], &measured, sizeof measured) != sizeof measured) _exit(1);
  });
  Measured measured;
  if (read(ends[0], &measured, sizeof measured) != sizeof measured) Fail("nothing measured");
  close(ends[0]);
  close(ends[1]);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  measured.processor_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  measured.peak_mib = usage.ru_maxrss >> 10;
  return measured;
}

void Measure(size_t calls, const Job& kind) {
  char folder[] = "/tmp/gordian-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) Fail("cannot make a folder");
  const std::string path = std::string(folder) + "/trace.gtrace";
  InChild([&] { Write(path, calls, kind); });
  const Measured now = MeasureOne(path, kind.window, false);
  if (kind.ranks == kManyRanks) {
    std::printf(
        "       %d ranks, %zu calls in %zu windows: %.2f s (%.2f s by the clock), %ld MiB\n",
        kind.ranks, now.calls, now.windows, now.processor_s, now.seconds, now.peak_mib);
    if (now.found > 0) Fail("the finding is wrong");
    unlink(path.c_str());
    rmdir(folder);
    return;
  }
  const Measured each = MeasureOne(path, kind.window, true);
  unlink(path.c_str());
  rmdir(folder);
  if ((now.found > 0) != kind.together) Fail("the finding is wrong");
  if (now.found != each.found || now.confirmed != each.confirmed || now.calls != each.calls)
    Fail("the findings differ");
  const auto speed = [](const Measured& measured) {
    return static_cast<double>(measured.calls) / measured.processor_s;
  };
  std::printf(
      "%5.1f  %s, %s, %zu calls in %zu windows: now %.0f calls/s, %.2f s (%.2f s by the clock), "
      "%ld "
      "MiB; each window %.0f calls/s, %.2f s, %ld MiB\n",
      speed(now) / speed(each), kind.together ? "together" : "apart",
      kind.mixed ? "mixed" : "alike", now.calls, now.windows, speed(now), now.processor_s,
      now.seconds, now.peak_mib, speed(each), each.processor_s, each.peak_mib);
  std::fflush(stdout);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(strtoul(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {1'000'000, 10'000'000};
  for (const bool mixed : {false, true}) {
    for (const bool together : {false, true}) {
      for (const size_t calls : sizes)
        gordian::bench::Measure(calls, {.together = together, .mixed = mixed});
    }
  }
  gordian::bench::Measure(24 * gordian::bench::kManyRanks,
                          {.ranks = gordian::bench::kManyRanks, .window = 1'000'000});
}
