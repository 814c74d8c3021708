// Configuration, environment, registration, windows, the host side of the device API.
#include <gtest/gtest.h>
#include <nccl_device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

ncclResult_t InitWith(Rank& rank, const ncclConfig_t& config, ncclComm_t* comm) {
  ncclConfig_t copy = config;
  return ncclCommInitRankConfig(comm, 1, rank.Id(0), 0, &copy);
}

TEST(Config, EveryFieldIsChecked) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                struct Field {
                  int ncclConfig_t::*field;
                  int good;
                  int bad;
                };
                const Field fields[] = {
                    {&ncclConfig_t::blocking, 1, 2},
                    {&ncclConfig_t::cgaClusterSize, 4, -3},
                    {&ncclConfig_t::minCTAs, 1, 0},
                    {&ncclConfig_t::maxCTAs, 8, -1},
                    {&ncclConfig_t::splitShare, 1, 2},
                    {&ncclConfig_t::collnetEnable, 0, 5},
                    {&ncclConfig_t::CTAPolicy, NCCL_CTA_POLICY_EFFICIENCY, 9},
                    {&ncclConfig_t::shrinkShare, 1, -1},
                    {&ncclConfig_t::nvlsCTAs, 4, 0},
                    {&ncclConfig_t::nChannelsPerNetPeer, 2, 65},
                    {&ncclConfig_t::nvlinkCentricSched, 1, 2},
                };
                ncclComm_t comm = nullptr;
                for (const Field& field : fields) {
                  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                  config.*field.field = field.bad;
                  REQUIRE(InitWith(rank, config, &comm) == ncclInvalidArgument);
                  config.*field.field = field.good;
                  REQUIRE_NCCL(InitWith(rank, config, &comm));
                  REQUIRE_NCCL(ncclCommDestroy(comm));
                }
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.minCTAs = 5;
                config.maxCTAs = 4;
                REQUIRE(InitWith(rank, config, &comm) == ncclInvalidArgument);
                config.maxCTAs = 5;
                config.trafficClass = 3;
                config.commName = "a name";
                config.netName = "Socket";
                REQUIRE_NCCL(InitWith(rank, config, &comm));
                config.netName = "carrier pigeon";
                REQUIRE(InitWith(rank, config, &comm) == ncclInvalidUsage);
              }).Succeeded());
}

// A program that was compiled with an older header passes less: nothing behind may be looked at.
TEST(Config, OfAnOlderHeader) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.size = offsetof(ncclConfig_t, commName);
                config.collnetEnable = 77;  // not there, as far as the caller says
                config.commName = reinterpret_cast<const char*>(16);
                ncclComm_t comm = nullptr;
                REQUIRE_NCCL(InitWith(rank, config, &comm));
                config.size = sizeof(config);
                config.commName = nullptr;
                REQUIRE(InitWith(rank, config, &comm) == ncclInvalidArgument);
                config.collnetEnable = 0;
                config.size = 4;
                REQUIRE(InitWith(rank, config, &comm) == ncclInvalidArgument);
              }).Succeeded());
}

// Two streams: shared resources make no operation wait for another.
void OppositeOnParentAndChild(Rank& rank, bool share) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = share ? 1 : 0;
  ncclComm_t parent = nullptr, child = nullptr;
  REQUIRE_NCCL(ncclCommInitRankConfig(&parent, 2, rank.Id(0), rank.rank(), &config));
  REQUIRE_NCCL(ncclCommSplit(parent, 0, 0, &child, nullptr));
  Buffer buffer(4);
  int* data = buffer.As<int>();
  cudaStream_t streams[] = {MakeStream(), MakeStream()};
  ncclComm_t comms[] = {parent, child};
  for (ncclComm_t comm : comms) {
    REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, streams[0]));
    Synchronize(streams[0]);
  }
  for (int i = 0; i < 2; ++i) {
    int which = rank.rank() == 0 ? i : 1 - i;
    REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms[which], streams[which]));
  }
  for (cudaStream_t stream : streams) Synchronize(stream);
}

TEST(Config, SharedResourcesOrderNothing) {
  EXPECT_TRUE(RunJob(2, [](Rank& r) { OppositeOnParentAndChild(r, true); }).Succeeded());
  EXPECT_TRUE(RunJob(2, [](Rank& r) { OppositeOnParentAndChild(r, false); }).Succeeded());
}

// Two streams, one of which waits for a host function that ends only after the other's operation.
void HostFunctionWaitsForOther(Rank& rank) {
  ncclComm_t comms[] = {rank.Init(0), rank.Init(1)};
  Buffer buffer(4);
  int* data = buffer.As<int>();
  cudaStream_t streams[] = {MakeStream(), MakeStream()};
  for (ncclComm_t comm : comms) {
    REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, streams[0]));
    Synchronize(streams[0]);
  }
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE_CUDA(cuLaunchHostFunc(
      streams[0],
      [](void* end) {
        char byte;
        REQUIRE(read(*static_cast<int*>(end), &byte, 1) == 1);
      },
      &ends[0]));
  REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms[0], streams[0]));
  REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms[1], streams[1]));
  Synchronize(streams[1]);
  REQUIRE(write(ends[1], "x", 1) == 1);
  Synchronize(streams[0]);
}

TEST(LaunchOrder, HoldsOperationsBackBehindOneThatHasNotStarted) {
  EXPECT_TRUE(RunJob(2, HostFunctionWaitsForOther).Succeeded());
  EXPECT_TRUE(RunJob(2, HostFunctionWaitsForOther, {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}}).hung);
}

TEST(Environment, CommIdIsTheSameForEverybody) {
  auto body = [](Rank& rank) {
    ncclUniqueId id;
    REQUIRE_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    REQUIRE_NCCL(ncclCommInitRank(&comm, 2, id, rank.rank()));
  };
  std::string address = "127.0.0.1:" + std::to_string(getpid());
  EXPECT_TRUE(RunJob(2, body, {{"NCCL_COMM_ID", address}}).Succeeded());
  EXPECT_TRUE(RunJob(2, body).hung);  // each has its own
}

TEST(Environment, DebugLines) {
  char path[] = "/tmp/gordian-emu-debug-XXXXXX";
  close(mkstemp(path));
  auto text_with = [&](const char* level, const char* subsystems) {
    std::ofstream(path, std::ios::trunc).close();
    Environment environment = {{"NCCL_DEBUG_FILE", path}};
    if (*level != '\0') environment.emplace_back("NCCL_DEBUG", level);
    if (*subsystems != '\0') environment.emplace_back("NCCL_DEBUG_SUBSYS", subsystems);
    EXPECT_TRUE(RunJob(
                    1,
                    [](Rank& rank) {
                      ncclComm_t comm = rank.Init();
                      Buffer buffer(4);
                      int* data = buffer.As<int>();
                      REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr));
                      REQUIRE(ncclCommCount(comm, nullptr) == ncclInvalidArgument);
                    },
                    environment)
                    .Succeeded());
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  auto count = [](const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(text_with("", ""), "");
  std::string version = text_with("VERSION", "");
  EXPECT_TRUE(version.starts_with("NCCL version 2.28.9+")) << version;
  EXPECT_EQ(count(version, "\n"), 1u);
  std::string warn = text_with("warn", "");
  EXPECT_EQ(count(warn, "NCCL WARN CommCount : count argument is NULL"), 1u) << warn;
  EXPECT_EQ(count(warn, "NCCL INFO"), 0u);
  std::string info = text_with("INFO", "");
  EXPECT_EQ(count(info, "Init COMPLETE"), 1u) << info;
  EXPECT_EQ(count(info, "AllReduce:"), 0u);
  std::string operations = text_with("INFO", "COLL");
  EXPECT_EQ(count(operations, "AllReduce: sendbuff"), 1u) << operations;
  EXPECT_EQ(count(operations, "Init COMPLETE"), 0u);
  unlink(path);
}

TEST(Environment, SeedGivesRightResults) {
  auto body = [](Rank& rank) {
    ncclComm_t comms[] = {rank.Init(0), rank.Init(1)};
    std::vector<cudaStream_t> streams;
    for (int i = 0; i < 12; ++i) streams.push_back(MakeStream());
    Buffer buffer(12 * sizeof(int));
    std::vector<int> ones(12, 1);
    buffer.Write(ones);
    for (int i = 0; i < 12; ++i) {
      int* data = buffer.As<int>() + i;
      REQUIRE_NCCL(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms[i % 2], streams[i]));
    }
    for (cudaStream_t stream : streams) Synchronize(stream);
    REQUIRE(buffer.Read<int>(12) == std::vector<int>(12, 2));
  };
  for (const char* seed : {"1", "2", "12345678901"}) {
    EXPECT_TRUE(RunJob(2, body, {{"GORDIAN_EMU_SEED", seed}}).Succeeded());
  }
}

TEST(Registration, HandlesAreKnown) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                ncclComm_t comm = rank.Init();
                void *memory = nullptr, *first = nullptr, *again = nullptr;
                REQUIRE_NCCL(ncclMemAlloc(&memory, 100));
                REQUIRE(reinterpret_cast<uintptr_t>(memory) % 4096 == 0);
                REQUIRE_NCCL(ncclCommRegister(comm, memory, 100, &first));
                REQUIRE_NCCL(ncclCommRegister(comm, memory, 50, &again));
                REQUIRE(first != nullptr && first == again);
                REQUIRE_NCCL(ncclCommDeregister(comm, first));
                REQUIRE_NCCL(ncclCommDeregister(comm, first));
                REQUIRE(ncclCommDeregister(comm, first) == ncclInvalidUsage);
                REQUIRE_NCCL(ncclMemFree(memory));
              }).Succeeded());
}

void RegisterWindows(Rank& rank, int count) {
  ncclComm_t comm = rank.Init();
  for (int i = 0; i < count; ++i) {
    void* memory = nullptr;
    ncclWindow_t window = nullptr;
    REQUIRE_NCCL(ncclMemAlloc(&memory, 8192));
    REQUIRE_NCCL(ncclCommWindowRegister(comm, memory, 8192, &window, NCCL_WIN_COLL_SYMMETRIC));
    REQUIRE(window != nullptr);
    REQUIRE_NCCL(ncclCommWindowDeregister(comm, window));
    REQUIRE(ncclCommWindowDeregister(comm, window) == ncclInvalidArgument);
    REQUIRE_NCCL(ncclMemFree(memory));
  }
}

TEST(Windows, AreRegisteredTogether) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) { RegisterWindows(rank, 2); }).Succeeded());
  EXPECT_TRUE(RunJob(2, [](Rank& rank) { RegisterWindows(rank, rank.rank() == 0 ? 2 : 1); }).hung);
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                ncclComm_t comms[2] = {};
                REQUIRE_NCCL(ncclCommInitAll(comms, 2, nullptr));
                void* memory[2] = {};
                ncclWindow_t windows[2] = {};
                for (int i = 0; i < 2; ++i) {
                  rank.UseDevice(i);
                  REQUIRE_NCCL(ncclMemAlloc(&memory[i], 4096));
                }
                REQUIRE(ncclCommWindowRegister(comms[0], static_cast<char*>(memory[0]) + 8, 64,
                                               &windows[0], 0) == ncclInvalidArgument);
                REQUIRE(ncclCommWindowRegister(comms[0], memory[1], 64, &windows[0], 0) ==
                        ncclInvalidArgument);
                REQUIRE_NCCL(ncclCommWindowRegister(comms[0], nullptr, 0, &windows[0], 0));
                REQUIRE(windows[0] == nullptr);
                REQUIRE_NCCL(ncclGroupStart());
                for (int i = 0; i < 2; ++i) {
                  REQUIRE_NCCL(ncclCommWindowRegister(comms[i], memory[i], 4096, &windows[i], 0));
                }
                REQUIRE_NCCL(ncclGroupEnd());
                REQUIRE(windows[0] != nullptr && windows[1] != nullptr && windows[0] != windows[1]);
              }).Succeeded());
}

TEST(DeviceApi, TeamsAndRequirementsButNoDeviceCommunicator) {
  EXPECT_TRUE(RunJob(1, [](Rank&) {
                ncclComm_t comms[4] = {};
                REQUIRE_NCCL(ncclCommInitAll(comms, 4, nullptr));
                ncclTeam_t world = ncclTeamWorld(comms[2]), lsa = ncclTeamLsa(comms[2]);
                ncclTeam_t rail = ncclTeamRail(comms[2]);
                REQUIRE(world.nRanks == 4 && world.rank == 2 && world.stride == 1);
                REQUIRE(lsa.nRanks == 4 && lsa.rank == 2 && lsa.stride == 1);
                REQUIRE(rail.nRanks == 1 && rail.rank == 0 && rail.stride == 4);
                REQUIRE(ncclTeamRankToWorld(comms[2], world, 3) == 3);
                REQUIRE(ncclTeamRankToLsa(comms[2], rail, 0) == 2);
                REQUIRE(ncclTeamWorld(nullptr).nRanks == 0);
                ncclDevResourceRequirements_t needs = {};
                ncclLsaBarrierHandle_t barrier = {};
                REQUIRE_NCCL(ncclLsaBarrierCreateRequirement(lsa, 2, &barrier, &needs));
                REQUIRE(needs.bufferSize == 56 && needs.outBufferHandle == &barrier.bufHandle);
                REQUIRE(ncclLLA2ACalcSlots(10, 12) == 20);
                ncclDevCommRequirements_t requirements = {};
                ncclDevComm_t device = {};
                REQUIRE(ncclDevCommCreate(comms[0], &requirements, &device) == ncclInvalidUsage);
                REQUIRE(std::strstr(ncclGetLastError(comms[0]), "symmetric memory") != nullptr);
                REQUIRE(ncclDevCommCreate(nullptr, &requirements, &device) == ncclInvalidArgument);
              }).Succeeded());
}

TEST(Stats, OperationsAndBytesOfEachCommunicator) {
  char folder[] = "/tmp/gordian-emu-stats-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string file = std::string(folder) + "/calls";
  Outcome outcome =
      RunJob(1,
             [](Rank& rank) {
               ncclComm_t comm = rank.Init();
               Buffer buffer(400);
               float* data = buffer.As<float>();
               for (size_t count : {100, 0, 50}) {
                 REQUIRE_NCCL(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, nullptr));
               }
             },
             {{"GORDIAN_EMU_STATS", file}});
  EXPECT_TRUE(outcome.Succeeded());
  std::string path = file + "." + std::to_string(outcome.pids[0]);
  std::ifstream stats(path);
  int operations = 0, bytes = 0, calls = 0, lost = 0;
  for (std::string name, count; stats >> name >> count;) {
    if (name.starts_with("comm:") && name.ends_with(":0:AllReduce.operations"))
      operations += std::stoi(count);
    if (name.starts_with("comm:") && name.ends_with(":0:AllReduce.bytes"))
      bytes += std::stoi(count);
    if (name == "ncclAllReduce") calls += std::stoi(count);
    if (name == "lost") lost += std::stoi(count);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(operations, 2);  // an empty collective is discarded
  EXPECT_EQ(bytes, 600);
  EXPECT_EQ(lost, 0);
  unlink(path.c_str());
  rmdir(folder);
}

// A file under the name that it would have, and what a link there leads to, stay as they were.
TEST(Stats, NoLinkIsWrittenThrough) {
  char folder[] = "/tmp/gordian-emu-stats-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/calls", victim = std::string(folder) + "/victim";
  std::ofstream(victim) << "precious";
  for (const bool symbolic : {true, false}) {
    const auto body = [&](Rank&) {
      const pid_t child = fork();  // which counts in a file of its own
      if (child == 0) {
        const std::string own = file + "." + std::to_string(getpid());
        const int made =
            symbolic ? symlink(victim.c_str(), own.c_str()) : link(victim.c_str(), own.c_str());
        int version = 0, devices = 0;
        (void)ncclGetVersion(&version);
        (void)cuDeviceGetCount(&devices);
        _exit(made == 0 ? 0 : 1);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    };
    EXPECT_TRUE(RunJob(1, body, {{"GORDIAN_EMU_STATS", file}}).Succeeded());
    EXPECT_EQ(std::filesystem::file_size(victim), 8u);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gordian::emu::test
