// How long it takes from opening a trace to the schedule of its witness, before anything is run.
//
//   bench_replay [EVENTS ...]      (default: 10000 1000000)
//
// The trace: eight ranks that train on two communicators and end in an order inversion of the last
// one. The ratio comes first: operations recorded by operations left. Exits with 1 where the
// witness is not the inversion's.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/trace_file.h"
#include "replayer/record/extract.h"
#include "replayer/verify/witness.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr int kRanks = 8;
constexpr uint64_t kDp = 1, kTp = 2;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_replay: %s\n", what.c_str());
  exit(1);
}

testing::RecordedJob Job(int events) {
  testing::RecordedJob job(kRanks);
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  job.MakeCommunicator(kDp, all, "dp");
  job.MakeCommunicator(kTp, all, "tp");
  for (const int rank : all) job.MakeStream(rank);
  while (job.events().size() < static_cast<size_t>(events)) {
    for (const int rank : all) {
      job.Kernels(rank, 1);
      job.Collective(rank, "ncclAllReduce", kDp, 1, 1024);
      job.Collective(rank, "ncclAllReduce", kTp, 1, 1024);
      job.RecordEvent(rank, 1, 0xe0);
    }
    job.AllDone();
    job.Round();
  }
  for (const int rank : all) {
    job.Collective(rank, "ncclAllReduce", rank == kRanks - 1 ? kTp : kDp, 1, 1024);
    job.Collective(rank, "ncclAllReduce", rank == kRanks - 1 ? kDp : kTp, 1, 1024);
    job.BeginSynchronize(rank, 1);
  }
  for (int round = 0; round < 3; ++round) job.Round();
  return job;
}

void Write(const std::string& path, int events) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  if (!writer.ok()) Fail(writer.status().ToString());
  const testing::RecordedJob job = Job(events);
  for (const v1::Event& event : job.events()) {
    if (Status status = (*writer)->Append(event); !status.ok()) Fail(status.ToString());
  }
  if (Status status = (*writer)->Close(); !status.ok()) Fail(status.ToString());
}

void Measure(int events) {
  char folder[] = "/tmp/gordian-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) Fail("cannot make a folder");
  const std::string path = std::string(folder) + "/trace.gtrace";
  Write(path, events);
  const auto begin = std::chrono::steady_clock::now();
  const StatusOr<replayer::Extracted> extracted = replayer::Extract(path);
  if (!extracted.ok()) Fail(extracted.status().ToString());
  if (!extracted->refused.empty()) Fail(extracted->refused.front());
  const replayer::Schedule witness = replayer::CutToWitness(extracted->schedule);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  unlink(path.c_str());
  rmdir(folder);
  const size_t left = replayer::CountOperations(witness);
  if (witness.origin.signature.verdict != "deadlock" || left == 0 || left > 2 * kRanks)
    Fail("the witness is wrong");
  std::printf("%9.0f  %8zu operations to %3zu, %d events, %.2f s\n",
              static_cast<double>(witness.origin.operations) / static_cast<double>(left),
              witness.origin.operations, left, events, seconds);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(atoi(argv[i]));
  if (sizes.empty()) sizes = {10'000, 1'000'000};
  for (const int events : sizes) gordian::bench::Measure(events);
}
