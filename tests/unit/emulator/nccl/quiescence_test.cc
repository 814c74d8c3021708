// GORDIAN_EMU_QUIESCENCE: says that nothing can move when, and only when, that is so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

class Report {
 public:
  Report() {
    char folder[] = "/tmp/gordian-emu-quiescence-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~Report() {
    for (const std::string& path : made_) unlink(path.c_str());
    rmdir(folder_.c_str());
  }
  Environment environment() const { return {{"GORDIAN_EMU_QUIESCENCE", folder_ + "/report"}}; }
  std::string Of(pid_t pid) {
    std::string path = folder_ + "/report." + std::to_string(pid);
    made_.push_back(path);
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  bool Exists(pid_t pid) const {
    return access((folder_ + "/report." + std::to_string(pid)).c_str(), F_OK) == 0;
  }

 private:
  std::string folder_;
  std::vector<std::string> made_;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Scene {
  explicit Scene(Rank& rank) : buffer(64), stream(MakeStream()) {
    for (int i = 0; i < 2; ++i) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.commName = i == 0 ? "alpha" : "beta";
      REQUIRE_NCCL(
          ncclCommInitRankConfig(&comms[i], rank.size(), rank.Id(i), rank.rank(), &config));
      AllReduce(i);
      Synchronize(stream);
    }
  }
  void AllReduce(int comm) {
    REQUIRE_NCCL(ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 4, ncclInt, ncclSum, comms[comm],
                               stream));
  }
  Buffer buffer;
  cudaStream_t stream;
  ncclComm_t comms[2] = {};
};

void Inversion(Rank& rank, bool inverted) {
  Scene scene(rank);
  int first = inverted && rank.rank() == 1 ? 1 : 0;
  scene.AllReduce(first);
  scene.AllReduce(1 - first);
  Synchronize(scene.stream);
}

TEST(Quiescence, NamesWhatEachRankWaitsFor) {
  Report report;
  Outcome outcome = RunJob(
      2, [](Rank& r) { Inversion(r, true); }, report.environment());
  ASSERT_TRUE(outcome.hung);
  std::string zero = report.Of(outcome.pids[0]), one = report.Of(outcome.pids[1]);
  // Rank 0 is in the second all-reduce on alpha and waits for rank 1; the other one is behind it.
  EXPECT_TRUE(Has(zero, "\"started\": true, \"comm\": ")) << zero;
  EXPECT_TRUE(Has(zero,
                  "\"name\": \"alpha\", \"rank\": 0, \"ranks\": 2, \"parts\": [{\"operation\": "
                  "\"AllReduce\", \"seq\": 2, \"bytes\": 16, \"for\": [1]}]"))
      << zero;
  EXPECT_TRUE(Has(zero, "\"in\": \"stream\"")) << zero;
  EXPECT_TRUE(Has(zero, "\"behind\": [0, 1]")) << zero;
  EXPECT_TRUE(Has(one,
                  "\"name\": \"beta\", \"rank\": 1, \"ranks\": 2, \"parts\": [{\"operation\": "
                  "\"AllReduce\", \"seq\": 2, \"bytes\": 16, \"for\": [0]}]"))
      << one;
  size_t beta = one.find("\"name\": \"beta\""), alpha = one.find("\"name\": \"alpha\"");
  EXPECT_LT(beta, alpha) << one;  // started ones first
}

// Who is asleep while another is awake asks now and then, not all the time: the report says how
// often was asked.
TEST(Quiescence, IsNotAskedForAllTheTime) {
  Report report;
  Outcome outcome = RunJob(
      2,
      [](Rank& rank) {
        Scene scene(rank);
        if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
        scene.AllReduce(rank.rank());
        Synchronize(scene.stream);
      },
      report.environment());
  ASSERT_TRUE(outcome.hung);
  const std::string zero = report.Of(outcome.pids[0]);
  const size_t at = zero.find("\"round\": ");
  ASSERT_NE(at, std::string::npos) << zero;
  EXPECT_LT(std::atoi(zero.c_str() + at + 9), 300) << zero;
}

TEST(Quiescence, IsNotSaidOfAJobThatEnds) {
  Report report;
  Outcome outcome = RunJob(
      2, [](Rank& r) { Inversion(r, false); }, report.environment());
  ASSERT_TRUE(outcome.Succeeded());
  for (pid_t pid : outcome.pids) EXPECT_FALSE(report.Exists(pid));
}

TEST(Quiescence, NamesTheCallThatConnects) {
  Report report;
  Outcome outcome = RunJob(
      2,
      [](Rank& rank) {
        ncclComm_t comms[] = {rank.Init(0), rank.Init(1)};
        Buffer buffer(4);
        // Cold, in opposite orders: both hang in their first calls, on the host.
        ncclComm_t first = comms[rank.rank()];
        REQUIRE_NCCL(ncclBroadcast(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, 0, first, 0));
      },
      report.environment());
  ASSERT_TRUE(outcome.hung);
  std::string zero = report.Of(outcome.pids[0]), one = report.Of(outcome.pids[1]);
  EXPECT_TRUE(Has(zero, "\"in\": \"connect\", \"call\": \"ncclBroadcast\"")) << zero;
  EXPECT_TRUE(Has(zero, "\"for\": [1]")) << zero;
  EXPECT_TRUE(Has(one, "\"for\": [0]")) << one;
  EXPECT_TRUE(Has(one, "\"operations\": []")) << one;
}

TEST(Quiescence, CountsAKilledRankAsOneThatDoesNotMove) {
  Report report;
  Outcome outcome = RunJob(
      2,
      [](Rank& rank) {
        Scene scene(rank);
        if (rank.rank() == 1) _exit(0);  // no handler runs
        scene.AllReduce(0);
        Synchronize(scene.stream);
      },
      report.environment());
  ASSERT_TRUE(outcome.hung);
  std::string zero = report.Of(outcome.pids[0]);
  EXPECT_TRUE(Has(zero, "\"pid\": " + std::to_string(outcome.pids[1]) + ", \"alive\": false"))
      << zero;
}

// One rank computes, another sleeps for a time, a kernel runs: all of them can move, and for longer
// than a report would take.
TEST(Quiescence, IsNotSaidWhileSomethingCanMove) {
  Report report;
  Environment environment = report.environment();
  environment.emplace_back("GORDIAN_EMU_KERNEL_US", "200000");
  std::string base = environment[0].second + ".";
  auto none = [base] { return access((base + std::to_string(getpid())).c_str(), F_OK) != 0; };
  EXPECT_TRUE(RunJob(
                  3,
                  [&](Rank& rank) {
                    Scene scene(rank);
                    auto until = std::chrono::steady_clock::now();
                    until += std::chrono::milliseconds(200);
                    if (rank.rank() == 1) {
                      while (std::chrono::steady_clock::now() < until) REQUIRE(none());
                    } else if (rank.rank() == 2) {
                      std::this_thread::sleep_until(until);
                      REQUIRE(none());
                    }
                    scene.AllReduce(0);
                    Synchronize(scene.stream);
                    REQUIRE(none());
                  },
                  environment)
                  .Succeeded());
}

// A thread that waits for somebody outside of the job cannot move by itself; when it is moved, the
// report is taken back.
TEST(Quiescence, IsTakenBackWhenTheJobIsMovedFromOutside) {
  Report report;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  bool seen = false;
  std::string text;
  Outcome outcome = RunJob(
      2,
      [&](Rank& rank) {
        Scene scene(rank);
        rank.Mark(1);
        char byte;
        if (rank.rank() == 1) REQUIRE(read(ends[0], &byte, 1) == 1);
        scene.AllReduce(0);
        Synchronize(scene.stream);
      },
      report.environment(), 1,
      [&](const std::vector<pid_t>& pids) {
        for (int i = 0; i < 2000 && !seen; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          seen = report.Exists(pids[0]) && report.Exists(pids[1]);
        }
        text = report.Of(pids[1]);
        REQUIRE(write(ends[1], "x", 1) == 1);
      });
  EXPECT_TRUE(outcome.Succeeded());
  EXPECT_TRUE(seen);
  EXPECT_TRUE(Has(text, "\"system_call\": \"read\"")) << text;
  for (pid_t pid : outcome.pids) EXPECT_FALSE(report.Exists(pid));
  close(ends[0]);
  close(ends[1]);
}

// The main thread sits in a join: outside of the emulator, in a wait without a timeout.
TEST(Quiescence, SeesThreadsThatWaitForEachOther) {
  Report report;
  Outcome outcome = RunJob(
      1,
      [](Rank& rank) {
        ncclComm_t comms[2];
        REQUIRE_NCCL(ncclCommInitAll(comms, 2, nullptr));
        std::thread member([&] {
          rank.UseDevice(1);
          Buffer buffer(4);
          REQUIRE_NCCL(ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, ncclSum,
                                     comms[1], nullptr));
        });
        member.join();
      },
      report.environment());
  ASSERT_TRUE(outcome.hung);
  std::string text = report.Of(outcome.pids[0]);
  EXPECT_TRUE(Has(text, "\"in\": \"connect\"")) << text;
  EXPECT_TRUE(Has(text, "\"system_call\": \"futex\"")) << text;
}

// What lies under the name of a report, or of the file before it is renamed, or in the place of its
// folder, stays as it was.
TEST(Quiescence, NoLinkLeadsAReportAstray) {
  namespace fs = std::filesystem;
  // In memory: a rank that waits for a disk would look hung.
  char made[] = "/dev/shm/gordian-emu-links-XXXXXX";
  const std::string base = mkdtemp(made), folder = base + "/reports", victim = base + "/victim";
  const auto text = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto hang = [](Rank& rank) {
    Scene scene(rank);
    scene.AllReduce(rank.rank());
    Synchronize(scene.stream);
  };
  fs::create_directory(folder);
  fs::create_directory(victim);
  const Environment environment = {{"GORDIAN_EMU_QUIESCENCE", folder + "/report"}};
  Outcome linked = RunJob(
      2,
      [&](Rank& rank) {
        const std::string name = "/report." + std::to_string(getpid());
        for (const char* part : {"", ".part"}) {
          std::ofstream(victim + name + part) << "precious";
          REQUIRE(symlink((victim + name + part).c_str(), (folder + name + part).c_str()) == 0);
        }
        hang(rank);
      },
      environment);
  ASSERT_TRUE(linked.hung);
  for (pid_t pid : linked.pids) {
    const std::string name = "/report." + std::to_string(pid);
    EXPECT_TRUE(Has(text(folder + name), "\"rank\": ")) << text(folder + name);
    EXPECT_EQ(text(victim + name), "precious");
    EXPECT_EQ(text(victim + name + ".part"), "precious");
  }
  Outcome swapped = RunJob(
      2,
      [&](Rank& rank) {
        std::ofstream(victim + "/report." + std::to_string(getpid())) << "precious";
        rank.Barrier();
        if (rank.rank() == 0) {
          fs::rename(folder, base + "/aside");
          fs::create_directory_symlink(victim, folder);
        }
        hang(rank);
      },
      environment);
  ASSERT_TRUE(swapped.hung);
  for (pid_t pid : swapped.pids)
    EXPECT_EQ(text(victim + "/report." + std::to_string(pid)), "precious");
  fs::remove_all(base);
}

// The file that the processes of a job share: a link under its name is not followed.
TEST(Quiescence, NoLinkLeadsTheJobsFileAstray) {
  Report report;
  char made[] = "/tmp/gordian-emu-links-XXXXXX";
  const std::string base = mkdtemp(made), victim = base + "/victim", said = base + "/path";
  Environment environment = report.environment();
  environment.emplace_back("GORDIAN_EMU_JOB", base);
  const auto job = [&](Rank& rank) {
    std::ifstream maps("/proc/self/maps");
    Scene scene(rank);
    for (std::string line; rank.rank() == 0 && std::getline(maps, line);) {
      const size_t at = line.find("/dev/shm/gordian-emujob-");
      if (at != std::string::npos) std::ofstream(said) << line.substr(at);
    }
  };
  ASSERT_TRUE(RunJob(2, job, environment).Succeeded());
  std::string path;
  std::ifstream(said) >> path;
  ASSERT_TRUE(path.starts_with("/dev/shm/gordian-emujob-")) << path;
  ASSERT_NE(access(path.c_str(), F_OK), 0);
  std::ofstream(victim) << "precious";
  for (const bool symbolic : {true, false}) {
    if (symbolic) {
      ASSERT_EQ(symlink(victim.c_str(), path.c_str()), 0);
    } else {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // is not waited for
    }
    (void)RunJob(
        2, [](Rank& rank) { Scene scene(rank); }, environment);
    std::ifstream file(victim);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == "precious");
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0);
    EXPECT_EQ(symbolic ? S_ISLNK(info.st_mode) : S_ISFIFO(info.st_mode), 1);
    unlink(path.c_str());
  }
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace gordian::emu::test
