// How the analyzer grows with the job: a training job of 64 to 16,384 ranks (training_job.h) hangs, and
// the time counts from the moment that the last node has answered the round that proves it until the
// verdict is there. Also what a record costs on the way in, and what the model keeps.
//
//   bench_scale [MAX_RANKS]        default 16384
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "analyzer/server/analysis.h"
#include "analyzer/server/graph_events.h"
#include "tests/unit/server/training_job.h"
#include "common/log.h"

namespace gordian::bench {
namespace {

using testing::Fault;
using testing::TrainingJob;
using testing::TrainingShape;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_scale: %s\n", what.c_str());
  exit(1);
}

// Of this thread, which does all the work here: what else the machine does is not counted.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Measured {
  int ranks = 0;
  uint64_t records = 0;
  double feed_s = 0, first_round_s = 0, proof_s = 0;
  double model_mib = 0;
};

Measured Measure(const TrainingShape& shape) {
  Measured result;
  result.ranks = shape.ranks();
  TrainingJob job(shape);
  server::Analysis analysis({});
  const TrainingJob::Sink feed = [&](int node, std::vector<v1::Event> events) {
    for (v1::Event& event : events) TrainingJob::MakeUnique(node, &event);
    const double begin = CpuSeconds();
    analysis.OnBatch(events);
    result.feed_s += CpuSeconds() - begin;
  };
  uint64_t number = 0;
  const auto round = [&] {
    job.Sleep(50'000'000);
    const v1::Event whole = job.WholeRound(++number);
    const double begin = CpuSeconds();
    analysis.OnEvent(whole);
    return CpuSeconds() - begin;
  };
  const double before = ResidentMiB();
  job.Begin(feed);
  for (int step = 0; step < shape.steps; ++step) {
    job.Step(step, feed);
    if (step + 1 < shape.steps) round();
  }
  result.first_round_s = round();
  result.proof_s = round();
  result.model_mib = ResidentMiB() - before;
  result.records = analysis.stats().records;
  const graph::Verdict verdict = analysis.Current();
  if (verdict.main.verdict != graph::VerdictKind::kDeadlock ||
      verdict.main.confidence != graph::Confidence::kConfirmed) {
    Fail("the verdict is wrong: " + verdict.main.summary);
  }
  if (std::getenv("SHOW")) std::fprintf(stderr, "%s\n", verdict.main.summary.c_str());
  return result;
}

int Main(int argc, char** argv) {
  SilenceLog();
  const int most = argc > 1 ? atoi(argv[1]) : 16'384;
  for (const int ranks : {std::getenv("R") ? atoi(std::getenv("R")) : 64, 512, 4096, 16384}) {
    if (ranks > most) break;
    TrainingShape shape;
    shape.pipeline = std::getenv("PIPE") ? atoi(std::getenv("PIPE")) : ranks >= 512 ? 16 : 4; if (std::getenv("MB")) shape.micro_batches = atoi(std::getenv("MB"));
    shape.data = ranks / (shape.tensor * shape.pipeline);
    shape.fault = Fault::kInversion;
    const Measured m = Measure(shape);
    std::printf("%6d ranks: %8llu records, %.2f M/s in; round %.3f s, proof %.3f s; %.0f MiB\n",
                m.ranks, static_cast<unsigned long long>(m.records),
                static_cast<double>(m.records) / m.feed_s / 1e6, m.first_round_s, m.proof_s,
                m.model_mib);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
