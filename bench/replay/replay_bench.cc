// How long it takes from opening a trace to the schedule of its witness, before anything is run.
//
//   bench_replay [EVENTS ...]      (default: 10000 1000000)
//
// The trace is bench_analyze's: eight ranks that train and end in an order inversion. The ratio comes first:
// operations recorded by operations left. Exits with 1 where the witness is not the inversion's.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/analyze/inversion_job.h"
#include "common/trace_file.h"
#include "replayer/extract.h"
#include "replayer/witness.h"

namespace gordian::bench {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_replay: %s\n", what.c_str());
  exit(1);
}

void Write(const std::string& path, int events) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  if (!writer.ok()) Fail(writer.status().ToString());
  for (v1::Event& event : InversionJob(events)) {
    if (Status status = (*writer)->Append(std::move(event)); !status.ok()) Fail(status.ToString());
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
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  unlink(path.c_str());
  rmdir(folder);
  const size_t left = replayer::CountOperations(witness);
  if (witness.origin.signature.verdict != "deadlock" || left == 0 || left > 2 * kRanks) Fail("the witness is wrong");
  std::printf("%9.0f  %8zu operations to %3zu, %d events, %.2f s\n",
              static_cast<double>(witness.origin.operations) / static_cast<double>(left), witness.origin.operations, left, events, seconds);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(atoi(argv[i]));
  if (sizes.empty()) sizes = {10'000, 1'000'000};
  for (const int events : sizes) gordian::bench::Measure(events);
}
