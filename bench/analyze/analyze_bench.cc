// How long `gordian analyze` takes for recorded jobs of eight ranks, 8,328 and 386 calls, rounds
// and other events, and six communicators that end in a hang: open, decode, model, verdict, call
// sites.
//
//   bench_analyze [REPETITIONS]
//
// Both sides read the same file with the same reader. The ratio comes first: time of the naive
// decider by time of gordian's. Exits with 1 if one of the two does not find the deadlock.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "analyzer/session/analysis.h"
#include "bench/analyze/inversion_job.h"
#include "bench/analyze/naive_decider.h"
#include "common/trace_file.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr int kDefaultRepetitions = 31;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_analyze: %s\n", what.c_str());
  exit(1);
}

// Returns how many events the file holds: records come in blocks.
uint64_t Write(const std::string& path, int events) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  if (!writer.ok()) Fail(writer.status().ToString());
  for (const v1::Event& event : testing::AsCollected(InversionJob(events))) {
    const bool round = event.has_round();
    if (Status status = (*writer)->Append(event); !status.ok()) Fail(status.ToString());
    // As when the job was recorded: a chunk at least every 100 ms.
    if (round) {
      if (Status status = (*writer)->Flush(); !status.ok()) Fail(status.ToString());
    }
  }
  if (Status status = (*writer)->Close(); !status.ok()) Fail(status.ToString());
  return (*writer)->events();
}

void Gordian(const std::string& path, uint64_t written) {
  StatusOr<analyzer::AnalysisResult> result = analyzer::AnalyzeTrace(path);
  if (!result.ok()) Fail(result.status().ToString());
  if (result->events != written) Fail("not all events were read");
  const model::Finding& main = result->verdict.main;
  std::set<int> ranks;
  for (const model::WaitEdge& edge : main.cycle) ranks.insert(edge.rank);
  if (main.verdict != model::VerdictKind::kDeadlock ||
      main.confidence != model::Confidence::kConfirmed ||
      ranks != std::set<int>{kFirstCulprit, kSecondCulprit}) {
    Fail("the verdict is wrong: " + main.summary);
  }
}

void Naive(const std::string& path) {
  StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(path);
  if (!reader.ok()) Fail(reader.status().ToString());
  NaiveDecider decider;
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) decider.OnEvent(event);
  }
  // Process numbers are ranks plus one.
  if (decider.cycle() != std::set<uint32_t>{kFirstCulprit + 1, kSecondCulprit + 1}) {
    Fail("the naive decider does not find the deadlock");
  }
}

// Of this thread, which does all the work: what else the machine does is not counted.
double CpuMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Times {
  std::vector<double> processor, clock;  // milliseconds

  template <typename Function>
  void Add(Function function) {
    const double before = CpuMilliseconds();
    const auto begin = std::chrono::steady_clock::now();
    function();
    clock.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
    processor.push_back(CpuMilliseconds() - before);
  }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Prints one line for each side.
void Compare(const std::string& folder, int events, double goal_ms, int repetitions) {
  const std::string path = folder + "/trace" + std::to_string(events) + ".gtrace";
  const uint64_t written = Write(path, events);
  const auto bytes = static_cast<unsigned long long>(std::filesystem::file_size(path));
  Gordian(path, written);  // caches warm for both
  Naive(path);
  Times gordian, naive;
  for (int i = 0; i < repetitions; ++i) {  // in turns: what else the machine does hits both
    gordian.Add([&] { Gordian(path, written); });
    naive.Add([&] { Naive(path); });
  }
  const auto least = [](const std::vector<double>& v) {
    return *std::min_element(v.begin(), v.end());
  };
  const auto most = [](const std::vector<double>& v) {
    return *std::max_element(v.begin(), v.end());
  };
  const double ours = Median(gordian.processor), theirs = Median(naive.processor);
  std::printf("analyze, %d events: %.1f times as fast as deciding anew at every round%s\n", events,
              theirs / ours, ours <= goal_ms ? "" : "   GOAL MISSED");
  std::printf(
      "  gordian  median %7.2f ms, best %7.2f ms, worst %7.2f ms of processor time, %.2f ms by the "
      "clock   (goal: median <= %.0f ms)\n",
      ours, least(gordian.processor), most(gordian.processor), Median(gordian.clock), goal_ms);
  std::printf(
      "  naive    median %7.2f ms, best %7.2f ms, worst %7.2f ms of processor time, %.2f ms by the "
      "clock\n",
      theirs, least(naive.processor), most(naive.processor), Median(naive.clock));
  std::printf("  %d ranks, %d communicators, %llu bytes, %d repetitions in turns\n", kRanks,
              kCommunicators, bytes, repetitions);
}

int Main(int argc, char** argv) {
  const int repetitions = argc > 1 ? atoi(argv[1]) : kDefaultRepetitions;
  if (repetitions < 1 || repetitions > 10'000) {
    std::fprintf(stderr, "usage: bench_analyze [REPETITIONS]   (1 to 10000)\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "bench_analyze.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make a temporary folder");
  Compare(folder, kManyEvents, 10, repetitions);
  Compare(folder, kFewEvents, 1, repetitions);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
