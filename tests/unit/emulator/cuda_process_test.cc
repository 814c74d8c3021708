// What concerns the whole process: fork, the sleeping worker, the account of calls.
#include <cuda.h>
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

const std::string kStatsPath =
    std::string(getenv("TMPDIR") != nullptr ? getenv("TMPDIR") : "/tmp") + "/gordian-emu-stats-" +
    std::to_string(getpid());

[[maybe_unused]] const bool kSettings = [] {
  setenv("GORDIAN_EMU_STATS", kStatsPath.c_str(), 1);
  return true;
}();

int RunInChild(const std::function<int()>& body, int* raw_status = nullptr) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  if (raw_status != nullptr) *raw_status = status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string DeviceThread() {
  DIR* const tasks = opendir("/proc/self/task");
  std::string found;
  while (const dirent* entry = readdir(tasks)) {
    const std::string folder = std::string("/proc/self/task/") + entry->d_name;
    if (ReadFile(folder + "/comm") == "emu-device\n") found = folder;
  }
  closedir(tasks);
  return found;
}

// First: later tests initialise CUDA in this process.
TEST(Fork, ChildOfAProcessThatNeverUsedCudaStartsFresh) {
  EXPECT_EQ(RunInChild([] {
              void* pointer = nullptr;
              if (cudaMalloc(&pointer, 64) != cudaSuccess) return 1;
              if (cudaLaunchHostFunc(
                      nullptr, [](void*) {}, nullptr) != cudaSuccess)
                return 2;
              return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
            }),
            0);
}

// exit() destroys what the main thread has as thread_local before it calls this function.
// The child is one of a process that never used CUDA, too.
TEST(Fork, FunctionsOfAtexitMayCallCuda) {
  EXPECT_EQ(RunInChild([] {
              atexit([] {
                void* pointer = nullptr;
                cudaStream_t stream = nullptr;
                int device = -1;
                if (cudaDeviceSynchronize() != cudaSuccess) _exit(2);
                if (cudaGetDevice(&device) != cudaSuccess || device != 1) _exit(3);
                if (cudaMalloc(&pointer, 64) != cudaSuccess) _exit(4);
                if (cudaStreamCreate(&stream) != cudaSuccess) _exit(5);
                if (cudaMemsetAsync(pointer, 0, 64, stream) != cudaSuccess) _exit(6);
                _exit(cudaStreamSynchronize(stream) == cudaSuccess ? 0 : 7);
              });
              if (cudaSetDevice(1) != cudaSuccess) return 8;
              if (cudaLaunchHostFunc(
                      cudaStreamPerThread, [](void*) { usleep(1000); }, nullptr) != cudaSuccess)
                return 9;
              exit(1);
            }),
            0);
}

TEST(Fork, ChildOfAProcessThatUsedCudaCannot) {
  int known = 0;
  ASSERT_EQ(cudaGetDeviceCount(&known), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(RunInChild([event] {
              int count = 0;
              void* pointer = nullptr;
              if (cudaGetDeviceCount(&count) != cudaSuccess || count != 8) return 1;
              if (cudaSetDevice(0) != cudaErrorInitializationError) return 2;
              if (cudaMalloc(&pointer, 64) != cudaErrorInitializationError) return 3;
              if (cudaEventQuery(event) != cudaErrorInitializationError) return 4;
              if (cudaStreamSynchronize(nullptr) != cudaErrorInitializationError) return 5;
              if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED) return 6;
              if (cudaGetLastError() != cudaErrorInitializationError) return 7;
              return 0;
            }),
            0);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST(Worker, SleepsWithoutWakingUp) {
  const HeldOpPtr held = Hold(cudaStream_t{nullptr});
  Call wait([] { return cudaDeviceSynchronize(); });
  ASSERT_TRUE(held->WaitStarted());
  EXPECT_TRUE(wait.Blocks());
  const std::string thread = DeviceThread();
  ASSERT_FALSE(thread.empty());
  const auto usage = [&thread] {
    // Context switches, and the CPU time in nanoseconds.
    const std::string status = ReadFile(thread + "/status");
    return status.substr(status.find("voluntary_ctxt_switches")) + ReadFile(thread + "/schedstat");
  };
  const std::string before = usage();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(usage(), before);
  held->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
  EXPECT_NE(usage(), before);
}

TEST(Worker, BlocksAllSignals) {
  const HeldOpPtr held = Hold(cudaStream_t{nullptr});
  ASSERT_TRUE(held->WaitStarted());
  const std::string status = ReadFile(DeviceThread() + "/status");
  const size_t at = status.find("SigBlk:\t");
  ASSERT_NE(at, std::string::npos);
  const uint64_t blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
  EXPECT_NE(blocked & (uint64_t{1} << (SIGINT - 1)), 0U);
  EXPECT_NE(blocked & (uint64_t{1} << (SIGTERM - 1)), 0U);
  held->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Doorbell, OtherProcessesRing) {
  // A peer opens it as /proc/<pid>/fd/<fd>.
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(TheEngine().DoorbellFd());
  const uint32_t before = TheEngine().Doorbell()->load();
  EXPECT_EQ(RunInChild([&path] {
              FILE* const file = fopen(path.c_str(), "r+");
              uint32_t value = 0;
              if (file == nullptr || fread(&value, sizeof(value), 1, file) != 1) return 1;
              value += 5;
              rewind(file);
              return fwrite(&value, sizeof(value), 1, file) == 1 && fclose(file) == 0 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(TheEngine().Doorbell()->load(), before + 5);
}

TEST(Stats, CountsLaunchesInAFileThatSurvivesAKill) {
  const TestKernel kernel("_Z4workv");
  const auto launch = [&kernel](int times) {
    for (int i = 0; i < times; ++i) {
      cudaLaunchKernel(kernel.function(), dim3(1), dim3(1), nullptr, 0, nullptr);
    }
  };
  launch(12);
  TheEngine().CountCall("ncclAllReduce");
  // Each process has its own, also after a fork.
  int status = 0;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  RunInChild(
      [&] {
        for (int i = 0; i < 3; ++i) TheEngine().CountCall("ncclBroadcast");
        const pid_t pid = getpid();
        if (write(pipe_fds[1], &pid, sizeof(pid)) != sizeof(pid)) return 1;
        kill(pid, SIGKILL);
        return 0;
      },
      &status);
  EXPECT_TRUE(WIFSIGNALED(status));
  pid_t child = 0;
  ASSERT_EQ(read(pipe_fds[0], &child, sizeof(child)), ssize_t{sizeof(child)});
  const std::string of_child = kStatsPath + "." + std::to_string(child);
  EXPECT_EQ(ReadFile(of_child), "ncclBroadcast 00000000000000000003\n");
  const std::string own = kStatsPath + "." + std::to_string(getpid());
  EXPECT_EQ(ReadFile(own),
            "cudaLaunchKernel 00000000000000000012\nncclAllReduce 00000000000000000001\n");
  launch(100);
  EXPECT_EQ(ReadFile(own).substr(0, 38), "cudaLaunchKernel 00000000000000000112\n");
  unlink(own.c_str());
  unlink(of_child.c_str());
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
