// By hand: replayer_minimize_session SESSION PROGRAM.cc [BUILD RUNS]. Makes the smallest schedule
// of a session by the model alone, writes it as a program and, with a build folder, compiles it and
// runs it so many times under the emulator. So what the model says of a schedule is held against
// what happens.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "replayer/record/extract.h"
#include "replayer/reduce/minimizer.h"
#include "replayer/reduce/model_run.h"
#include "replayer/verify/verifier.h"
#include "replayer/write/cxx_writer.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fprintf(stderr, "usage: %s SESSION PROGRAM.cc [BUILD RUNS]\n", argv[0]);
    return 2;
  }
  gordian::replayer::ExtractOptions options;
  options.model.suspect_after_ns = 1'000'000'000;  // tests' sessions are short
  const auto extracted = gordian::replayer::Extract(argv[1], options);
  if (!extracted.ok()) {
    std::fprintf(stderr, "%s\n", std::string(extracted.status().message()).c_str());
    return 2;
  }
  for (const std::string& reason : extracted->refused) std::printf("refused: %s\n", reason.c_str());
  if (!extracted->refused.empty()) return 3;
  const gordian::replayer::Signature& recorded = extracted->schedule.origin.signature;
  const gordian::replayer::ModelRun run = gordian::replayer::RunModel(extracted->schedule);
  std::printf("recorded: %s [%s]\nmodel:    %s [%s]%s\n", Describe(recorded).c_str(),
              extracted->schedule.origin.check.c_str(), Describe(run.signature).c_str(),
              run.check.c_str(), run.signature == recorded ? "" : " DIFFERS");
  const auto begin = std::chrono::steady_clock::now();
  const gordian::replayer::MinimizeReport report = gordian::replayer::Minimize(extracted->schedule);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::printf("result:   %s; %zu of %zu unfinished calls; %.1f ms, %.0f us a candidate\n",
              Describe(report).c_str(), report.calls_after, report.calls_before,
              took.count() * 1e-3,
              took.count() / static_cast<double>(std::max<size_t>(report.candidates, 1)));
  if (!report.refused.empty()) return 1;
  std::ofstream(argv[2]) << gordian::replayer::WriteCxx(report.schedule, {});
  if (argc < 5) return 0;
  const std::string build = argv[3], source = argv[2], binary = source + ".bin";
  const size_t slash = source.rfind('/') + 1;  // 0 without one
  const auto folder = gordian::OwnedFolder::Adopt(slash == 0 ? "." : source.substr(0, slash));
  if (!folder.ok()) return 2;
  gordian::replayer::VerifyTools tools;
  tools.include_dirs = {GORDIAN_CUDA_INCLUDE, GORDIAN_NCCL_INCLUDE};
  tools.library_dir = build + "/lib/emulator";
  tools.gordian = build + "/bin/gordian";
  if (recorded.edges.empty()) tools.patience_s = 4;
  if (const gordian::Status compiled = gordian::replayer::CompileReplay(
          *folder, source.substr(slash), binary.substr(slash), tools);
      !compiled.ok()) {
    std::printf("compiler: %s\n", std::string(compiled.message()).c_str());
    return 1;
  }
  const auto verified =
      gordian::replayer::VerifyReplay(binary, recorded, std::atoi(argv[4]), false, tools, {});
  if (!verified.ok()) return 1;
  std::printf("run:      %s\n", Describe(*verified, recorded).c_str());
  for (const auto& one : verified->runs) {
    if (!(one.signature == recorded))
      std::printf("told as %s, left with %d\n%s\n", Describe(one.signature).c_str(), one.exit_code,
                  one.output.c_str());
  }
  return verified->same == static_cast<int>(verified->runs.size()) ? 0 : 1;
}
