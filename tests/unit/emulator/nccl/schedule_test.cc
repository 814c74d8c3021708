// GORDIAN_EMU_SCHEDULE: the order of calls that it forces decides whether a job hangs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "emulator/nccl/comm/schedule_file.h"
#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

using nccl::ParseSchedule;
using nccl::ScheduleStep;

class ScheduleFile {
 public:
  explicit ScheduleFile(const std::string& steps) : ScheduleFile("gordian-schedule 1\n", steps) {}
  ScheduleFile(const std::string& header, const std::string& steps) {
    char folder[] = "/tmp/gordian-emu-schedule-XXXXXX";
    folder_ = mkdtemp(folder);
    std::ofstream(path()) << header << steps;
  }
  ~ScheduleFile() {
    unlink(path().c_str());
    unlink(said_path().c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/schedule"; }
  // Where the ranks' standard error goes, with SayThere.
  std::string said_path() const { return folder_ + "/said"; }
  void SayThere() const { REQUIRE(std::freopen(said_path().c_str(), "a", stderr) != nullptr); }
  std::string Said() const {
    std::ifstream file(said_path());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  Environment environment() const { return {{"GORDIAN_EMU_SCHEDULE", path()}}; }

 private:
  std::string folder_;
};

void AllReduce(ncclComm_t comm, const Buffer& buffer, cudaStream_t stream) {
  REQUIRE_NCCL(
      ncclAllReduce(buffer.As<int>(), buffer.As<int>(), 1, ncclInt, ncclSum, comm, stream));
}

// Two threads of each rank use one stream, each with its own communicator. Nothing in the program
// says which of them comes first.
void TwoThreadsOneStream(Rank& rank) {
  Buffer first(4), second(4);
  cudaStream_t stream = MakeStream();
  ncclComm_t comms[] = {rank.Init(0), rank.Init(1)};
  for (ncclComm_t comm : comms) {
    AllReduce(comm, first, stream);
    Synchronize(stream);
  }
  std::thread other([&] {
    rank.UseDevice(rank.rank());
    AllReduce(comms[1], second, stream);
  });
  AllReduce(comms[0], first, stream);
  other.join();
  Synchronize(stream);
}

TEST(Schedule, OppositeOrdersHangAndEqualOnesDoNot) {
  ScheduleFile equal(
      "rank 0 comm 0 op 2\nrank 0 comm 1 op 2\n"
      "rank 1 comm 0 op 2\nrank 1 comm 1 op 2\n");
  ScheduleFile equal_the_other_way(
      "rank 0 comm 1 op 2\nrank 1 comm 1 op 2\n"
      "rank 0 comm 0 op 2  # both of rank 1 wait for this\nrank 1 comm 0 op 2\n");
  ScheduleFile opposite(
      "rank 0 comm 0 op 2\nrank 0 comm 1 op 2\n"
      "rank 1 comm 1 op 2\nrank 1 comm 0 op 2\n");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(RunJob(2, TwoThreadsOneStream, equal.environment()).Succeeded());
    EXPECT_TRUE(RunJob(2, TwoThreadsOneStream, equal_the_other_way.environment()).Succeeded());
    EXPECT_TRUE(RunJob(2, TwoThreadsOneStream, opposite.environment()).hung);
  }
}

TEST(Schedule, CommunicatorsByNameAndCallsByThread) {
  auto body = [](Rank& rank) {
    Buffer first(4), second(4);
    cudaStream_t stream = MakeStream();
    ncclComm_t comms[2] = {};
    for (int i = 0; i < 2; ++i) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.commName = i == 0 ? "data parallel" : "tp";
      REQUIRE_NCCL(ncclCommInitRankConfig(&comms[i], 2, rank.Id(i), rank.rank(), &config));
      AllReduce(comms[i], first, stream);
      Synchronize(stream);
    }
    std::thread other([&] {
      rank.UseDevice(rank.rank());
      AllReduce(comms[1], second, stream);
    });
    AllReduce(comms[0], first, stream);
    other.join();
    Synchronize(stream);
  };
  // The main thread has made two inits and two operations before; the other one's call is its
  // first.
  ScheduleFile named(
      "rank 0 comm \"data parallel\" op 2\nrank 0 comm \"tp\" op 2\n"
      "rank 1 comm \"tp\" op 2\nrank 1 comm \"data parallel\" op 2\n");
  ScheduleFile by_thread(
      "rank 0 thread 1 call 5\nrank 0 thread 2 call 1\n"
      "rank 1 thread 2 call 1\nrank 1 thread 1 call 5\n");
  ScheduleFile by_thread_equal(
      "rank 0 thread 1 call 5\nrank 0 thread 2 call 1\n"
      "rank 1 thread 1 call 5\nrank 1 thread 2 call 1\n");
  EXPECT_TRUE(RunJob(2, body, named.environment()).hung);
  EXPECT_TRUE(RunJob(2, body, by_thread.environment()).hung);
  EXPECT_TRUE(RunJob(2, body, by_thread_equal.environment()).Succeeded());
}

// Both ranks of one process, on two threads: a rank is a device's, not a process's.
TEST(Schedule, RanksOfOneProcess) {
  auto body = [](Rank& rank) {
    ncclComm_t first[2], second[2];
    REQUIRE_NCCL(ncclCommInitAll(first, 2, nullptr));
    REQUIRE_NCCL(ncclCommInitAll(second, 2, nullptr));
    auto member = [&](int r) {
      rank.UseDevice(r);
      Buffer buffer(4);
      cudaStream_t stream = MakeStream();
      AllReduce(first[r], buffer, stream);
      AllReduce(second[r], buffer, stream);
      Synchronize(stream);
    };
    std::thread other(member, 1);
    member(0);
    other.join();
  };
  // The first calls of both are cold: each lets the other in when it begins to wait for it.
  ScheduleFile schedule(
      "rank 1 comm 0 op 1\nrank 0 comm 0 op 1\nrank 0 comm 1 op 1\nrank 1 comm 1 op 1\n");
  EXPECT_TRUE(RunJob(1, body, schedule.environment()).Succeeded());
}

TEST(Schedule, OneRankWaitsForTheOther) {
  auto body = [](Rank& rank) {
    ncclComm_t comm = rank.Init();
    Buffer buffer(4);
    cudaStream_t stream = MakeStream();
    AllReduce(comm, buffer, stream);
    Synchronize(stream);
    bool forced = std::getenv("GORDIAN_EMU_SCHEDULE") != nullptr;
    if (rank.rank() == 1) {
      if (!forced) rank.Barrier();  // rank 0 comes through first: that is what the schedule forbids
      rank.Mark(7);
    }
    AllReduce(comm, buffer, stream);
    if (rank.rank() == 0) {
      // Rank 1 has entered its call, and marked before.
      REQUIRE((rank.MarkOf(1) == 7) == forced);
      if (!forced) rank.Barrier();
    }
    Synchronize(stream);
  };
  ScheduleFile schedule("rank 1 call 3\nrank 0 call 3\n");
  EXPECT_TRUE(RunJob(2, body, schedule.environment()).Succeeded());
  EXPECT_TRUE(RunJob(2, body).Succeeded());
}

TEST(Schedule, ThatCannotBeFollowedIsReleased) {
  // Rank 0 waits for an operation whose other part may come only after a call that it makes later.
  ScheduleFile impossible("rank 0 call 3\nrank 1 call 2\n");
  EXPECT_TRUE(RunJob(
                  2,
                  [&](Rank& rank) {
                    impossible.SayThere();
                    ncclComm_t comm = rank.Init();
                    Buffer buffer(4);
                    cudaStream_t stream = MakeStream();
                    for (int i = 0; i < 2; ++i) {
                      AllReduce(comm, buffer, stream);
                      Synchronize(stream);
                    }
                  },
                  impossible.environment())
                  .Succeeded());
  EXPECT_NE(impossible.Said().find("cannot be followed"), std::string::npos);

  ScheduleFile ended("rank 0 call 2\nrank 1 call 2\n");
  Environment environment = ended.environment();
  environment.emplace_back("NCCL_RUNTIME_CONNECT", "0");
  EXPECT_TRUE(RunJob(
                  2,
                  [&](Rank& rank) {
                    ended.SayThere();
                    ncclComm_t comm = rank.Init();
                    if (rank.rank() == 0) return;
                    Buffer buffer(4);
                    void* data = buffer.As<int>();  // a root does not wait for the others
                    REQUIRE_NCCL(ncclBroadcast(data, data, 1, ncclInt, 1, comm, nullptr));
                  },
                  environment)
                  .Succeeded());
  EXPECT_NE(ended.Said().find("cannot be followed"), std::string::npos);

  ScheduleFile possible("rank 0 call 2\nrank 1 call 2\n");
  EXPECT_TRUE(RunJob(
                  2,
                  [&](Rank& rank) {
                    possible.SayThere();
                    ncclComm_t comm = rank.Init();
                    Buffer buffer(4);
                    AllReduce(comm, buffer, nullptr);
                    Synchronize(nullptr);
                  },
                  possible.environment())
                  .Succeeded());
  EXPECT_EQ(possible.Said(), "");
}

// A job that was killed cannot remove what it shared; the next one does.
TEST(Schedule, LeavesNothingBehind) {
  auto job_files = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      std::string name = entry.path().filename();
      if (name.starts_with("gordian-emujob-")) names.push_back(name);
    }
    return names;
  };
  ScheduleFile schedule("rank 0 call 1\n");
  ScheduleFile other("rank 1 call 1\n");
  auto hang = [&](Rank& rank) {
    if (rank.rank() == 0) rank.Init();
    pause();
  };
  EXPECT_TRUE(RunJob(2, hang, schedule.environment()).hung);
  std::vector<std::string> killed = job_files();
  EXPECT_FALSE(killed.empty());
  EXPECT_TRUE(RunJob(
                  2, [](Rank& rank) { rank.Init(); }, other.environment())
                  .Succeeded());
  // Other jobs may run meanwhile; the killed one's file is not among what is left.
  std::vector<std::string> left = job_files();
  EXPECT_LT(std::count_if(killed.begin(), killed.end(),
                          [&](const auto& name) {
                            return std::find(left.begin(), left.end(), name) != left.end();
                          }),
            static_cast<long>(killed.size()));
}

TEST(Schedule, WithALineThatIsNotUnderstoodIsIgnored) {
  ScheduleFile wrong("rank 0 call 3\nrank 1 call 2\nrank 1 calls 3\n");
  EXPECT_TRUE(RunJob(
                  2,
                  [&](Rank& rank) {
                    wrong.SayThere();
                    ncclComm_t comm = rank.Init();
                    Buffer buffer(4);
                    AllReduce(comm, buffer, nullptr);
                    Synchronize(nullptr);
                  },
                  wrong.environment())
                  .Succeeded());
  EXPECT_NE(wrong.Said().find("line 4: not understood: rank 1 calls 3; the schedule is ignored"),
            std::string::npos)
      << wrong.Said();
}

TEST(ScheduleText, IsReadAsDocumented) {
  std::vector<ScheduleStep> steps;
  std::string error;
  ASSERT_TRUE(
      ParseSchedule("# first\n\ngordian-schedule 1\r\n rank 3 call 2 # x\n"
                    "rank 0 thread 2 call 1\nrank 0 comm 1 op 9\nrank 0 comm \"a b\" op 1",
                    &steps, &error))
      << error;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].rank, 3);
  EXPECT_EQ(steps[0].number, 2u);
  EXPECT_EQ(steps[1].thread, 2u);
  EXPECT_EQ(steps[2].comm, 1);
  EXPECT_TRUE(steps[2].on_comm);
  EXPECT_EQ(steps[3].comm_name, "a b");
  EXPECT_TRUE(ParseSchedule("gordian-schedule 1\n", &steps, &error));
  EXPECT_TRUE(steps.empty());
  for (const char* wrong :
       {"", "rank 0 call 1\n", "gordian-schedule 2\n", "gordian-schedule 1\nrank 0 call 0\n",
        "gordian-schedule 1\nrank -1 call 1\n", "gordian-schedule 1\nrank 0 call\n",
        "gordian-schedule 1\nrank 0 call 1 2\n", "gordian-schedule 1\nrank 0 comm \"a op 1\n",
        "gordian-schedule 1\nrank 0 comm \"\" op 1\n",
        "gordian-schedule 1\nrank 0 thread 0 call 1\n",
        "gordian-schedule 1\nrank 0 call 99999999999999999999\n",
        "gordian-schedule 1\nrank 0 call 1\nrank 0 call 1\n"}) {
    EXPECT_FALSE(ParseSchedule(wrong, &steps, &error)) << wrong;
    EXPECT_TRUE(error.starts_with("line ")) << error;
    EXPECT_TRUE(steps.empty());
  }
}

}  // namespace
}  // namespace gordian::emu::test
