// How long `gordian predict` takes from opening a trace to its findings, and how much memory.
//
//   bench_predict [CALLS ...]      (default: 10000 100000 1000000)
//
// The trace: two ranks of two threads each that train. A step has eight all-reduces of one thread,
// two all-gathers of another one, on another communicator, and a wait of each for its stream. The
// threads have streams of their own ("apart": no order hangs), or share one ("together": some do).
//
// The ratio comes first: time a call, by that of the first size. Exits with 1 where the finding is
// wrong.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/trace_file.h"
#include "replayer/predict/predict.h"
#include "replayer/predict/recorded_orders.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr int kRanks = 2;
constexpr uint64_t kDp = 1, kTp = 2;
constexpr uint32_t kTrains = 1, kLoads = 2;  // threads
constexpr size_t kCallsOfStep = kRanks * 12;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_predict: %s\n", what.c_str());
  exit(1);
}

void Append(TraceWriter* writer, testing::RecordedJob* job) {
  for (const v1::Event& event : testing::AsCollected(job->Drain())) {
    if (Status status = writer->Append(event); !status.ok()) Fail(status.ToString());
  }
}

void Write(const std::string& path, size_t calls, bool together) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  if (!writer.ok()) Fail(writer.status().ToString());
  testing::RecordedJob job(kRanks);
  job.MakeCommunicator(kDp, {0, 1}, "dp");
  job.MakeCommunicator(kTp, {0, 1}, "tp");
  for (int rank = 0; rank < kRanks; ++rank) {
    const uint32_t stream = job.MakeStream(rank), other = job.MakeStream(rank);
    job.Collective(rank, "ncclAllReduce", kDp, stream, 1024);
    job.Collective(rank, "ncclAllGather", kTp, together ? stream : other, 1024);
  }
  job.AllDone();
  const auto wait = [&](int rank, uint32_t stream) {
    job.BeginSynchronize(rank, stream);
    job.EndSynchronize(rank);
  };
  for (size_t step = 0; step < calls / kCallsOfStep; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const uint32_t of_loads = together ? 1 : 2;
      job.AsThread(rank, kTrains);
      for (int i = 0; i < 8; ++i) job.Collective(rank, "ncclAllReduce", kDp, 1, 1024);
      job.AsThread(rank, kLoads);
      for (int i = 0; i < 2; ++i) job.Collective(rank, "ncclAllGather", kTp, of_loads, 1024);
      wait(rank, of_loads);
      job.AsThread(rank, kTrains);
      wait(rank, 1);
    }
    if (step % 100 == 0) {
      job.Round();
      Append(writer->get(), &job);
    }
  }
  job.AllDone();
  job.Round();
  for (int rank = 0; rank < kRanks; ++rank) job.EndProcess(rank, 0);
  job.EndJob(0);
  Append(writer->get(), &job);
  if (Status status = (*writer)->Close(); !status.ok()) Fail(status.ToString());
}

struct Measured {
  double seconds = 0;
  size_t calls = 0;
  size_t found = 0;  // deadlocks, whether confirmed or not
  size_t windows = 0;
};

Measured Predict(const std::string& path) {
  Measured measured;
  const auto begin = std::chrono::steady_clock::now();
  replayer::JobPredictor predictor({});
  replayer::OrdersOptions options;
  options.max_calls = SIZE_MAX;
  if (getenv("NAIVE") == nullptr)
    options.knows = [&](size_t window) { return predictor.Knows(window); };
  const Status status =
      replayer::ReadOrders(path, {}, options, [&](replayer::RecordedOrders&& orders) {
        predictor.Take(orders);
        return true;
      });
  const replayer::Predictions& all = predictor.predictions();
  if (!status.ok()) Fail(status.ToString());
  if (!all.judged)
    Fail("not judged: " + (all.not_judged.empty() ? "no reason" : all.not_judged.front()));
  measured.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  measured.windows = all.windows;
  measured.calls = all.calls;
  measured.found = all.predicted.size() + all.unconfirmed.size();
  return measured;
}

// In a process of its own, for its peak memory.
void Measure(size_t calls, bool together, double* first) {
  char folder[] = "/tmp/gordian-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) Fail("cannot make a folder");
  const std::string path = std::string(folder) + "/trace.gtrace";
  int ends[2];
  if (pipe(ends) != 0) Fail("no pipe");
  std::fflush(nullptr);
  const auto in_child = [&](auto work) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    int status = 0;
    rusage usage{};
    if (wait4(child, &status, 0, &usage) != child || status != 0) Fail("a measurement failed");
    return usage.ru_maxrss;
  };
  in_child([&] { Write(path, calls, together); });
  const long peak_kib = in_child([&] {
    const Measured measured = Predict(path);
    if (write(ends[1], &measured, sizeof measured) != sizeof measured) _exit(1);
  });
  Measured measured;
  if (read(ends[0], &measured, sizeof measured) != sizeof measured) Fail("nothing measured");
  close(ends[0]);
  close(ends[1]);
  unlink(path.c_str());
  rmdir(folder);
  if ((measured.found > 0) != together) Fail("the finding is wrong");
  const double each = measured.seconds / static_cast<double>(measured.calls);
  if (*first == 0) *first = each;
  std::printf("%6.2f  %s, %zu calls in %zu windows: %.0f calls/s, %.2f s, %ld MiB\n", each / *first,
              together ? "together" : "apart", measured.calls, measured.windows, 1 / each,
              measured.seconds, peak_kib >> 10);
  std::fflush(stdout);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(strtoul(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {10'000, 100'000, 1'000'000};
  for (const bool together : {false, true}) {
    double first = 0;
    for (const size_t calls : sizes) gordian::bench::Measure(calls, together, &first);
  }
}
