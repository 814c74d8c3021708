// How long `gordian export` takes for a long recorded job of eight ranks, and how much memory, beside
// `gordian analyze` of the same trace, which reads and decides without writing.
//
//   bench_export [MILLIONS_OF_RECORDS [FORMAT...]]     default 10 perfetto chrome jsonl csv chakra
//
// The format `frame` is the pandas.DataFrame that the Python package makes of all operations; it
// needs a python3 in PATH that has pandas. Exits with 1 if an export misses its goals, which are of
// ten million records; those of a frame are of each million operations.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/trace_file.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr int kRanks = 8;
constexpr int kOperationsOfRound = 500;  // of a rank: as many as it calls in 100 ms
constexpr double kGoalSeconds = 60;      // of perfetto
constexpr double kGoalMiB = 1024;
constexpr double kFrameSecondsAMillion = 60, kFrameMiBAMillion = 2048;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_export: %s\n", what.c_str());
  exit(1);
}

void Check(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

// Returns how many records the trace holds.
uint64_t Write(const std::string& path, uint64_t wanted) {
  StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path, {});
  Check(writer.status());
  testing::RecordedJob job(kRanks);
  std::vector<int> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(rank);
  job.MakeCommunicator(11, ranks, "dp");
  job.MakeCommunicator(12, ranks, "tp");
  std::vector<uint32_t> streams;
  for (int rank = 0; rank < kRanks; ++rank) {
    streams.push_back(job.MakeStream(rank));
    job.MakeStream(rank);
  }
  uint64_t records = 0;
  while (records < wanted) {
    for (int i = 0; i < kOperationsOfRound; ++i) {
      const bool reduce = i % 2 == 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        job.Collective(rank, reduce ? "ncclAllReduce" : "ncclAllGather", reduce ? 11 : 12,
                       streams[static_cast<size_t>(rank)] + (reduce ? 0 : 1), 1 << 20);
        records += 2;
      }
    }
    job.AllDone();
    job.Round();
    for (const v1::Event& event : testing::AsCollected(job.Drain()))
      Check((*writer)->Append(event));
    Check((*writer)->Flush());
  }
  for (int rank = 0; rank < kRanks; ++rank) job.EndProcess(rank, 0);
  job.EndJob(0);
  for (const v1::Event& event : testing::AsCollected(job.Drain())) Check((*writer)->Append(event));
  Check((*writer)->Close());
  return records;
}

struct Cost {
  double seconds = 0, processor = 0, mib = 0;
};

Cost Run(std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  std::fflush(stdout);  // else the child would write it, too
  const pid_t child = fork();
  if (child < 0) Fail("cannot fork");
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr ||
        freopen("/dev/null", "w", stderr) == nullptr)
      _exit(126);
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (wait4(child, &status, 0, &used) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    Fail(command[0] + " " + command[1] + " failed");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024};
}

// Has the Python package of the same build hold all operations as a data frame.
Cost MakeFrame(const std::string& gordian, const std::string& trace) {
  const auto build = std::filesystem::path(gordian).parent_path().parent_path();
  return Run({"/usr/bin/env", "PYTHONPATH=" + (build / "lib/python").string(), "python3", "-c",
              "import gordian, sys\n"
              "frame = gordian.open_session(sys.argv[1], program=sys.argv[2]).operations()\n"
              "sys.exit(len(frame) == 0)",
              trace, gordian});
}

// Adds up the bytes of a file, or of all files in a folder.
uint64_t SizeOf(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return fs::file_size(path);
  uint64_t size = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) size += entry.file_size();
  return size;
}

int Main(int argc, char** argv) {
  const double millions = argc > 1 ? atof(argv[1]) : 10;
  if (millions < 0.01 || millions > 1000) {
    std::fprintf(stderr,
                 "usage: bench_export [MILLIONS_OF_RECORDS [FORMAT...]]   (0.01 to 1000)\n");
    return 2;
  }
  namespace fs = std::filesystem;
  const std::string gordian =
      (fs::read_symlink("/proc/self/exe").parent_path() / "gordian").string();
  std::string folder = (fs::temp_directory_path() / "bench_export.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make a temporary folder");
  const std::string trace = folder + "/trace.gtrace", out = folder + "/out";
  std::vector<std::string> formats(argv + std::min(argc, 2), argv + argc);
  if (formats.empty()) formats = {"perfetto", "chrome", "jsonl", "csv", "chakra"};
  const uint64_t records = Write(trace, static_cast<uint64_t>(millions * 1e6));
  const Cost read = Run({gordian, "analyze", trace});
  const auto print = [&](const char* what, const Cost& cost) {
    std::printf("  %-8s %7.1f s by the clock, %7.1f s of processor time, %7.0f MiB\n", what,
                cost.seconds, cost.processor, cost.mib);
  };
  bool all_met = true;
  for (const std::string& format : formats) {
    const bool frame = format == "frame";
    const Cost written = frame ? MakeFrame(gordian, trace)
                               : Run({gordian, "export", trace, "-f", format, "-o", out});
    const double operations = static_cast<double>(records) / 2e6;  // millions
    const bool met =
        frame ? operations < 1 || (written.seconds <= kFrameSecondsAMillion * operations &&
                                   written.mib <= kFrameMiBAMillion * operations)
              : millions < 10 || ((format != "perfetto" || written.seconds <= kGoalSeconds) &&
                                  written.mib <= kGoalMiB);
    all_met &= met;
    std::printf("export -f %s: %.1f times the time of reading the trace%s\n", format.c_str(),
                written.processor / read.processor, met ? "" : "   GOAL MISSED");
    print("export", written);
    if (frame) continue;
    std::printf("  %llu MiB written\n", static_cast<unsigned long long>(SizeOf(out) >> 20));
    fs::remove_all(out);
  }
  print("analyze", read);
  std::printf("  %llu records, a trace of %llu MiB   (goals: perfetto %.0f s; %.0f MiB)\n",
              static_cast<unsigned long long>(records),
              static_cast<unsigned long long>(fs::file_size(trace) >> 20), kGoalSeconds, kGoalMiB);
  fs::remove_all(folder);
  return all_met ? 0 : 1;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
