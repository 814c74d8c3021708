// Result codes of wrong calls, the exported names, and the emulator's own count of calls.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "emulator/nccl/api/nccl_header.h"
#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {
namespace {

TEST(Errors, Operations) {
  EXPECT_TRUE(
      RunJob(1, [](Rank& rank) {
        ncclComm_t comms[2] = {};
        REQUIRE_NCCL(ncclCommInitAll(comms, 2, nullptr));
        ncclComm_t comm = comms[0];
        rank.UseDevice(1);
        Buffer elsewhere(64);
        rank.UseDevice(0);
        Buffer buffer(64);
        float* data = buffer.As<float>();
        float host[4] = {};
        cudaStream_t stream = MakeStream();
        auto reduce = [&](const void* send, void* recv, size_t count, int type, int op,
                          ncclComm_t c) {
          return ncclAllReduce(send, recv, count, static_cast<ncclDataType_t>(type),
                               static_cast<ncclRedOp_t>(op), c, stream);
        };
        REQUIRE(reduce(data, data, 4, ncclFloat, ncclSum, nullptr) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, ncclFloat, ncclSum, reinterpret_cast<ncclComm_t>(host)) ==
                ncclInvalidArgument);
        REQUIRE(reduce(nullptr, data, 4, ncclFloat, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, nullptr, 4, ncclFloat, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(host, data, 4, ncclFloat, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(std::strstr(ncclGetLastError(comm), "sendbuff") != nullptr);
        REQUIRE(reduce(data, elsewhere.As<float>(), 4, ncclFloat, ncclSum, comm) ==
                ncclInvalidArgument);
        REQUIRE(reduce(data, data, 1 << 20, ncclFloat, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, SIZE_MAX / 2, ncclFloat, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, 12, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, -1, ncclSum, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, ncclFloat, 5, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, ncclFloat, -1, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 0, ncclFloat, ncclSum, comm) == ncclSuccess);  // nothing to do
        REQUIRE(reduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm) == ncclSuccess);
        REQUIRE(ncclBroadcast(data, data, 4, ncclFloat, 2, comm, stream) == ncclInvalidArgument);
        REQUIRE(ncclBroadcast(data, data, 4, ncclFloat, -1, comm, stream) == ncclInvalidArgument);
        REQUIRE(ncclSend(data, 4, ncclFloat, 2, comm, stream) == ncclInvalidArgument);
        REQUIRE(ncclRecv(data, 4, ncclFloat, -1, comm, stream) == ncclInvalidArgument);
        REQUIRE(ncclSend(data, 4, ncclFloat, 0, comm, stream) ==
                ncclInvalidUsage);  // to itself, alone
        auto wild = reinterpret_cast<cudaStream_t>(host);
        REQUIRE(ncclBroadcast(data, data, 4, ncclFloat, 0, comm, wild) == ncclUnhandledCudaError);

        ncclRedOp_t op = ncclSum;
        float scalar = 2;
        REQUIRE(ncclRedOpCreatePreMulSum(nullptr, &scalar, ncclFloat, ncclScalarHostImmediate,
                                         comm) == ncclInvalidArgument);
        REQUIRE(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarHostImmediate, comm) ==
                ncclInvalidArgument);
        REQUIRE(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarDevice, comm) ==
                ncclInvalidArgument);
        REQUIRE_NCCL(
            ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
        REQUIRE(reduce(data, data, 4, ncclHalf, op, comm) == ncclInvalidArgument);
        REQUIRE(reduce(data, data, 4, ncclFloat, op, comms[1]) == ncclInvalidArgument);
        REQUIRE_NCCL(ncclRedOpDestroy(op, comm));
        REQUIRE(ncclRedOpDestroy(op, comm) == ncclInvalidArgument);
        REQUIRE(ncclRedOpDestroy(ncclSum, comm) == ncclInvalidArgument);
      }).Succeeded());
}

TEST(Errors, Communicators) {
  EXPECT_TRUE(
      RunJob(1, [](Rank& rank) {
        ncclComm_t comm = nullptr;
        int value = 0;
        REQUIRE(ncclGetUniqueId(nullptr) == ncclInvalidArgument);
        REQUIRE(ncclGetVersion(nullptr) == ncclInvalidArgument);
        REQUIRE_NCCL(ncclGetVersion(&value));
        REQUIRE(value == 22809);
        REQUIRE(ncclCommInitRank(nullptr, 1, rank.Id(0), 0) == ncclInvalidArgument);
        REQUIRE(ncclCommInitRank(&comm, 0, rank.Id(0), 0) == ncclInvalidArgument);
        REQUIRE(ncclCommInitRank(&comm, 2, rank.Id(0), 2) == ncclInvalidArgument);
        REQUIRE(ncclCommInitRank(&comm, 2, rank.Id(0), -1) == ncclInvalidArgument);
        ncclConfig_t config = {};
        REQUIRE(ncclCommInitRankConfig(&comm, 1, rank.Id(0), 0, &config) == ncclInvalidArgument);
        config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 2;
        REQUIRE(ncclCommInitRankConfig(&comm, 1, rank.Id(0), 0, &config) == ncclInvalidArgument);
        ncclComm_t comms[2] = {};
        int twice[] = {0, 0}, beyond[] = {0, 99};
        REQUIRE(ncclCommInitAll(nullptr, 2, nullptr) == ncclInvalidArgument);
        REQUIRE(ncclCommInitAll(comms, -1, nullptr) == ncclInvalidArgument);
        REQUIRE(ncclCommInitAll(comms, 2, beyond) == ncclInvalidArgument);
        REQUIRE(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
        REQUIRE(ncclCommCount(nullptr, &value) == ncclInvalidArgument);
        REQUIRE(ncclCommDestroy(nullptr) == ncclSuccess);
        REQUIRE(ncclCommAbort(nullptr) == ncclSuccess);
        REQUIRE_NCCL(ncclCommInitRank(&comm, 1, rank.Id(0), 0));
        REQUIRE(ncclCommCount(comm, nullptr) == ncclInvalidArgument);
        REQUIRE(ncclCommGetAsyncError(comm, nullptr) == ncclInvalidArgument);
        REQUIRE(ncclCommSplit(comm, -2, 0, comms, nullptr) == ncclInvalidArgument);
        REQUIRE(ncclCommSplit(comm, 0, 0, nullptr, nullptr) == ncclInvalidArgument);
        REQUIRE_NCCL(ncclCommFinalize(comm));
        REQUIRE(ncclCommFinalize(comm) == ncclInvalidArgument);
        REQUIRE_NCCL(ncclCommDestroy(comm));
        REQUIRE(ncclCommDestroy(comm) == ncclInvalidArgument);
        void* memory = nullptr;
        REQUIRE(ncclMemAlloc(nullptr, 1) == ncclInvalidArgument);
        REQUIRE(ncclMemAlloc(&memory, 0) == ncclInvalidArgument);
        REQUIRE_NCCL(ncclMemAlloc(&memory, 1000));
        REQUIRE_NCCL(ncclMemFree(memory));
        REQUIRE(ncclMemFree(&value) != ncclSuccess);
        REQUIRE(std::string(ncclGetErrorString(ncclInProgress)) == "NCCL operation in progress");
        REQUIRE(std::string(ncclGetErrorString(static_cast<ncclResult_t>(99))) ==
                "unknown result code");
      }).Succeeded());
}

TEST(Errors, Groups) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                REQUIRE(ncclGroupEnd() == ncclInvalidUsage);
                ncclComm_t comm = rank.Init();
                Buffer buffer(64);
                float* data = buffer.As<float>();
                REQUIRE_NCCL(ncclGroupStart());
                REQUIRE(ncclBroadcast(data, data, 4, ncclFloat, 7, comm, nullptr) ==
                        ncclInvalidArgument);
                REQUIRE_NCCL(ncclBroadcast(data, data, 4, ncclFloat, 0, comm, nullptr));
                REQUIRE(ncclGroupEnd() == ncclInvalidArgument);
                REQUIRE_NCCL(ncclGroupStart());  // and the next one is not marked by it
                REQUIRE_NCCL(ncclGroupEnd());
                ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
                REQUIRE_NCCL(ncclGroupStart());
                REQUIRE_NCCL(ncclBroadcast(data, data, 4, ncclFloat, 0, comm, nullptr));
                REQUIRE_NCCL(ncclGroupSimulateEnd(&info));
                REQUIRE(info.estimatedTime > 0);
              }).Succeeded());
}

TEST(Errors, TwoRanksOnOneDevice) {
  auto body = [](Rank& rank) {
    rank.UseDevice(0);
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 2, rank.Id(0), rank.rank()) == ncclInvalidUsage);
    REQUIRE(comm == nullptr);
  };
  EXPECT_TRUE(RunJob(2, body).Succeeded());
}

// Device 0 of each process is another one: that is how launchers pin ranks.
TEST(Errors, SameNumberOfDifferentDevices) {
  EXPECT_TRUE(RunJob(2,
                     [](Rank& rank) {
                       rank.UseDevice(0);
                       REQUIRE(rank.Init() != nullptr);
                     },
                     {{"CUDA_VISIBLE_DEVICES", "%r"}})
                  .Succeeded());
}

TEST(Exports, EveryFunctionOfTheHeaderUnderBothNames) {
  std::ifstream header(GORDIAN_TEST_NCCL_HEADER);
  ASSERT_TRUE(header);
  std::string line;
  int functions = 0;
  // In a child's stead: only looks the names up, calls nothing.
  while (std::getline(header, line)) {
    for (const char* result : {"ncclResult_t", "const char*", "void"}) {
      if (!line.starts_with(result)) continue;
      size_t start = line.find_first_not_of(' ', std::strlen(result));
      size_t end = line.find('(', start);
      if (start == std::string::npos || end == std::string::npos) continue;
      std::string name = line.substr(start, end - start);
      if (!name.starts_with("nccl") && !name.starts_with("pnccl")) continue;
      ++functions;
      EXPECT_NE(dlsym(RTLD_DEFAULT, name.c_str()), nullptr) << name;
    }
  }
  EXPECT_GE(functions, 82);
}

// NCCL 2.31: settings of one call.
TEST(Settings, OfOneCallAreChecked) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                ncclComm_t comm = nullptr;
                REQUIRE_NCCL(ncclCommInitAll(&comm, 1, nullptr));
                Buffer buffer(64);
                float* data = buffer.As<float>();
                const auto reduce = [&](const ncclCollConfig_t* config) {
                  return ncclAllReduceConfig(data, data, 4, ncclFloat, ncclSum, comm, nullptr,
                                             config);
                };
                ncclCollConfig_t config = {};
                REQUIRE(reduce(&config) == ncclInvalidArgument);
                config.size = sizeof(config);
                config.magic = 0xcafebeef;
                config.minCTAs = config.maxCTAs = config.nvlsCTAs = NCCL_CONFIG_UNDEF_INT;
                config.cgaClusterSize = config.CTAPolicy = NCCL_CONFIG_UNDEF_INT;
                config.forceAlgSelection = 1;
                REQUIRE_NCCL(reduce(&config));
                REQUIRE_NCCL(reduce(nullptr));
                config.minCTAs = 4;
                config.maxCTAs = 2;
                REQUIRE(reduce(&config) == ncclInvalidArgument);
                config.maxCTAs = 4;
                REQUIRE_NCCL(reduce(&config));
                config.size = 16;
                REQUIRE(reduce(&config) == ncclInvalidArgument);
                rank.Mark(1);
              }).Succeeded());
}

TEST(Stats, CountsTheApplicationsCalls) {
  char folder[] = "/tmp/gordian-emu-stats-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string file = std::string(folder) + "/calls";
  pid_t pid = 0;
  Outcome outcome = RunJob(
      1,
      [](Rank& rank) {
        ncclComm_t comm = nullptr;
        REQUIRE_NCCL(ncclCommInitAll(&comm, 1, nullptr));
        Buffer buffer(64);
        float* data = buffer.As<float>();
        for (int i = 0; i < 3; ++i) {
          REQUIRE_NCCL(ncclBcast(data, 4, ncclFloat, 0, comm, nullptr));
        }
        REQUIRE(ncclBcast(data, 4, ncclFloat, 9, comm, nullptr) == ncclInvalidArgument);
        REQUIRE_NCCL(pncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, nullptr));
        rank.Mark(1);
      },
      {{"GORDIAN_EMU_STATS", file}}, 0, [&](const std::vector<pid_t>& pids) { pid = pids[0]; });
  EXPECT_TRUE(outcome.Succeeded());
  std::map<std::string, int> calls;
  std::ifstream stats(file + "." + std::to_string(pid));
  for (std::string name, count; stats >> name >> count;) calls[name] = std::stoi(count);
  EXPECT_EQ(calls["ncclBcast"], 4);
  EXPECT_EQ(calls.count("ncclBroadcast"), 0u);
  EXPECT_EQ(calls["ncclAllReduce"], 1);
  EXPECT_EQ(calls["ncclCommInitAll"], 1);
  EXPECT_EQ(calls.count("ncclGroupStart"), 0u);
  unlink((file + "." + std::to_string(pid)).c_str());
  rmdir(folder);
}

}  // namespace
}  // namespace gordian::emu::test
