// How the analyzer grows with the job: a training job of 64 to 16,384 ranks (training_job.h) hangs,
// and the time counts from the moment that the last node has answered the round that proves it
// until the verdict is there, in seconds of the one thread that does it. Also how many records a
// second are taken in, in process, from the unpacked message to the model: by one thread, in its
// processor time, and by two as the ingest service's streams do it, by the clock. And by how much
// the process grows (with what the job's writer keeps).
//
//   bench_scale [MAX_RANKS]        default 16384
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/session/analysis.h"
#include "common/log.h"
#include "common/packed_batch.h"
#include "common/record_block.h"
#include "testing/jobs/training_job.h"

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

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Measured {
  int ranks = 0;
  uint64_t records = 0;
  double feed_s = 0, first_round_s = 0, proof_s = 0;
  double two_feed_s = 0;
  // Of all steps but the first, in which communicators, streams and call sites are new.
  uint64_t later_records = 0;
  double later_feed_s = 0, two_later_feed_s = 0;
  double model_mib = 0;
  uint64_t sent_records = 0, plain_bytes = 0, wire_bytes = 0;
};

// Events as a collector would send them, the serialised batches: no more records are added to one
// that has kBatch.
std::vector<std::string> Batches(std::vector<v1::Event> events, Measured* measured) {
  constexpr size_t kBatch = 512;
  std::vector<std::string> batches;
  v1::ToAnalyzer message;
  size_t in_batch = 0;
  const auto send = [&] {
    message.mutable_batch()->set_number(batches.size() + 1);
    measured->plain_bytes += message.ByteSizeLong();
    measured->wire_bytes += PackedMessage(message).ByteSizeLong();
    batches.push_back(message.batch().SerializeAsString());
    message.Clear();
    in_batch = 0;
  };
  for (v1::Event& event : events) {
    in_batch += RecordsIn(event.records());
    measured->sent_records += RecordsIn(event.records());
    *message.mutable_batch()->add_events() = std::move(event);
    if (in_batch >= kBatch) send();
  }
  if (message.has_batch()) send();
  return batches;
}

// As the ingest service takes a batch in, once it is unpacked.
void Take(const std::string& bytes, int node, analyzer::Analysis* analysis) {
  v1::EventBatch batch;
  if (!batch.ParseFromString(bytes)) Fail("a batch makes no sense");
  std::vector<v1::Event> events;
  events.reserve(static_cast<size_t>(batch.events_size()));
  for (v1::Event& event : *batch.mutable_events()) {
    TrainingJob::MakeUnique(node, &event);
    events.push_back(std::move(event));
  }
  analysis->OnBatch(events);
}

// Takes what the sink gathers in, each node's batches in their order, by two threads.
class TwoFeeders {
 public:
  explicit TwoFeeders(analyzer::Analysis* analysis) : analysis_(analysis) {}

  void Gather(int node, std::vector<std::string> batches) {
    for (std::string& bytes : batches)
      waiting_[static_cast<size_t>(node) % waiting_.size()].emplace_back(node, std::move(bytes));
  }
  // Seconds by the clock.
  double Feed() {
    const double begin = Seconds();
    const auto feed = [this](size_t feeder) {
      for (const auto& [node, bytes] : waiting_[feeder]) Take(bytes, node, analysis_);
    };
    std::thread other(feed, 1);
    feed(0);
    other.join();
    const double took = Seconds() - begin;
    for (auto& waiting : waiting_) waiting.clear();
    return took;
  }

 private:
  analyzer::Analysis* const analysis_;
  std::array<std::vector<std::pair<int, std::string>>, 2> waiting_;
};

void FeedByTwo(const TrainingShape& shape, Measured* result) {
  Measured ignored;
  TrainingJob job(shape);
  analyzer::Analysis analysis({});
  TwoFeeders feeders(&analysis);
  const TrainingJob::Sink gather = [&](int node, std::vector<v1::Event> events) {
    feeders.Gather(node, Batches(std::move(events), &ignored));
  };
  uint64_t number = 0;
  job.Begin(gather);
  for (int step = 0; step < shape.steps; ++step) {
    job.Step(step, gather);
    const double took = feeders.Feed();
    result->two_feed_s += took;
    if (step > 0) result->two_later_feed_s += took;
    job.Sleep(50'000'000);
    analysis.OnEvent(job.WholeRound(++number));
  }
}

Measured Measure(const TrainingShape& shape) {
  Measured result;
  result.ranks = shape.ranks();
  TrainingJob job(shape);
  analyzer::Analysis analysis({});
  const TrainingJob::Sink feed = [&](int node, std::vector<v1::Event> events) {
    const std::vector<std::string> batches = Batches(std::move(events), &result);
    const double begin = CpuSeconds();
    for (const std::string& bytes : batches) Take(bytes, node, &analysis);
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
    const double fed_before = result.feed_s;
    const uint64_t sent_before = result.sent_records;
    job.Step(step, feed);
    if (step > 0) {
      result.later_feed_s += result.feed_s - fed_before;
      result.later_records += result.sent_records - sent_before;
    }
    if (step + 1 < shape.steps) round();
  }
  result.first_round_s = round();
  result.proof_s = round();
  result.model_mib = ResidentMiB() - before;
  result.records = analysis.stats().records;
  const model::Verdict verdict = analysis.Current();
  if (verdict.main.verdict != model::VerdictKind::kDeadlock ||
      verdict.main.confidence != model::Confidence::kConfirmed) {
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
    shape.steps = std::clamp(16'384 / ranks, 2, 64);
    all.push_back(Measure(shape));
    FeedByTwo(shape, &all.back());
    const Measured& m = all.back();
    std::printf(
        "scale, %5d ranks: verdict %.3f s after the last report%s; %llu records of %d steps at "
        "%.2f M/s by one thread, %.2f by two, after the "
        "first step %.2f and %.2f (goal 5); the round before it %.3f s; %.0f MiB\n",
        m.ranks, m.proof_s,
        m.ranks == 4096    ? " (goal 0.3)"
        : m.ranks == 16384 ? " (goal 1)"
                           : "",
        static_cast<unsigned long long>(m.records), shape.steps,
        static_cast<double>(m.records) / m.feed_s / 1e6,
        static_cast<double>(m.records) / m.two_feed_s / 1e6,
        static_cast<double>(m.later_records) / m.later_feed_s / 1e6,
        static_cast<double>(m.later_records) / m.two_later_feed_s / 1e6, m.first_round_s,
        m.model_mib);
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
