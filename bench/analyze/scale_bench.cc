// How the analyzer grows with the job: a training job of 64 to 16,384 ranks (training_job.h) hangs, and
// the time counts from the moment that the last node has answered the round that proves it until the
// verdict is there, in seconds of the one thread that does it. Also what a record costs, in process,
// from the unpacked message to the model, and by how much the process grows (with what the job's writer keeps).
//
//   bench_scale [MAX_RANKS]        default 16384
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "analyzer/server/analysis.h"
#include "analyzer/server/graph_events.h"
#include "tests/unit/server/training_job.h"
#include "common/log.h"
#include "common/packed_batch.h"

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
  uint64_t sent_records = 0, plain_bytes = 0, wire_bytes = 0;
};

// Events as a collector would send them, at most so many to a batch: the serialised batches.
std::vector<std::string> Batches(const std::vector<v1::Event>& events, Measured* measured) {
  constexpr size_t kBatch = 512;
  std::vector<std::string> batches;
  for (size_t first = 0; first < events.size(); first += kBatch) {
    v1::ToAnalyzer message;
    message.mutable_batch()->set_number(first + 1);
    for (size_t i = first; i < std::min(first + kBatch, events.size()); ++i) {
      measured->sent_records += events[i].has_record() ? 1 : 0;
      *message.mutable_batch()->add_events() = events[i];
    }
    measured->plain_bytes += message.ByteSizeLong();
    measured->wire_bytes += PackedMessage(message).ByteSizeLong();
    batches.push_back(message.batch().SerializeAsString());
  }
  return batches;
}

// As the ingest service takes a batch in, once it is unpacked.
void Take(const std::string& bytes, int node, server::plain::Chunk* batch, server::Analysis* analysis) {
  using Kind = server::plain::Chunk::Kind;
  if (!batch->ReadBatch(bytes)) Fail("a batch makes no sense");
  server::Together together;
  together.chunk = batch;
  together.events = batch->events();
  for (const server::plain::Chunk::Event& event : batch->events()) {
    if (event.kind == Kind::kRecord) {
      batch->record(event).of_process += static_cast<uint32_t>(node) * server::kProcessesOfNode;
    } else {
      TrainingJob::MakeUnique(node, &batch->other(event));
    }
  }
  analysis->OnBatch(together);
}

Measured Measure(const TrainingShape& shape) {
  Measured result;
  result.ranks = shape.ranks();
  TrainingJob job(shape);
  server::Analysis analysis({});
  server::plain::Chunk batch;
  const TrainingJob::Sink feed = [&](int node, std::vector<v1::Event> events) {
    const std::vector<std::string> batches = Batches(events, &result);
    const double begin = CpuSeconds();
    for (const std::string& bytes : batches) Take(bytes, node, &batch, &analysis);
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
  return result;
}

int Main(int argc, char** argv) {
  SilenceLog();
  const int most = argc > 1 ? atoi(argv[1]) : 16'384;
  std::vector<Measured> all;
  for (const int ranks : {64, 512, 4096, 16384}) {
    if (ranks > most) break;
    TrainingShape shape;
    shape.pipeline = ranks >= 512 ? 16 : 4;
    shape.data = ranks / (shape.tensor * shape.pipeline);
    shape.fault = Fault::kInversion;
    all.push_back(Measure(shape));
    const Measured& m = all.back();
    std::printf(
        "scale, %5d ranks: verdict %.3f s after the last report%s; %llu records at %.2f M/s; the round "
        "before it %.3f s; %.0f MiB\n",
        m.ranks, m.proof_s,
        m.ranks == 4096    ? " (goal 0.3)"
        : m.ranks == 16384 ? " (goal 1)"
                           : "",
        static_cast<unsigned long long>(m.records), static_cast<double>(m.records) / m.feed_s / 1e6,
        m.first_round_s, m.model_mib);
    std::fflush(stdout);
  }
  if (all.size() > 1) {
    // Least squares of log(time) over log(ranks).
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const Measured& m : all) {
      const double lx = std::log(m.ranks), ly = std::log(m.proof_s);
      n += 1, x += lx, y += ly, xx += lx * lx, xy += lx * ly;
    }
    std::printf("  the time grows with the ranks to the power of %.2f\n",
                (n * xy - x * y) / (n * xx - x * x));
  }
  if (!all.empty()) {
    const Measured& m = all.back();
    std::printf("  %.1f B a record on the wire (goal 32), %.1f B before it is packed\n",
                static_cast<double>(m.wire_bytes) / static_cast<double>(m.sent_records),
                static_cast<double>(m.plain_bytes) / static_cast<double>(m.sent_records));
  }
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
