// Hangs whose cause leaves no trace that gordian reads: it says what follows from them.
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

bool Guilty(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

// Waits for a byte that is never written.
void ReadForever() {
  int ends[2];
  char byte = 0;
  if (pipe(ends) != 0 || read(ends[0], &byte, 1) != 1) std::_Exit(7);
}

pid_t DeviceThread(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process) + "/task/";
  DIR* const tasks = opendir(folder.c_str());
  if (tasks == nullptr) return 0;
  pid_t found = 0;
  while (const dirent* task = readdir(tasks)) {
    char name[32] = "";
    FILE* const file = fopen((folder + task->d_name + "/comm").c_str(), "r");
    if (file == nullptr) continue;
    if (fgets(name, sizeof name, file) != nullptr && std::strcmp(name, "emu-device\n") == 0)
      found = atoi(task->d_name);
    fclose(file);
  }
  closedir(tasks);
  return found;
}

// A process of its own stops the emulated device of this one, as a debugger stops a thread, and
// keeps it stopped: the host's threads run on, and what the device is at stays as it is.
void FreezeDeviceAfter(unsigned microseconds) {
  const pid_t process = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  usleep(microseconds);
  const pid_t thread = DeviceThread(process);
  if (thread == 0 || ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0 ||
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
      waitpid(thread, nullptr, __WALL) != thread) {
    std::perror("the device cannot be stopped");
    kill(process, SIGABRT);
  }
  for (;;) pause();
}

}  // namespace

// The last rank's device stops in the middle of things.
JOB(frozen_device, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) FreezeDeviceAfter(100'000);
  for (int i = 0; i < 50 || !c.twin; ++i) {
    c.AllReduce(world, s, 1 << 16);
    c.Sync(s);
  }
}

// The last rank uses a communicator that is still being made, and does not look at what the call
// returns.
JOB(used_too_early, 2) {
  cudaStream_t s = c.Stream();
  float* buffer = c.Buffer(64);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t world = nullptr;
  const ncclUniqueId id = c.Id("world", 0);
  const auto make = [&] {
    const ncclResult_t made = ncclCommInitRankConfig(&world, c.nranks, id, c.rank, &config);
    if (made != ncclSuccess && made != ncclInProgress) std::_Exit(8);
  };
  const auto wait = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) NCCL_OK(ncclCommGetAsyncError(world, &state));
    NCCL_OK(state);
  };
  const auto all_reduce = [&] {
    return ncclAllReduce(buffer, buffer, 64, ncclFloat, ncclSum, world, s);
  };
  if (Guilty(c)) {
    make();
    all_reduce();
    c.WaitForOthersToReach("too early", c.nranks);
    c.Sync(s);
    ReadForever();
  }
  c.WaitForOthersToReach("init", c.nranks);
  make();
  wait();
  const ncclResult_t called = all_reduce();
  if (called != ncclSuccess && called != ncclInProgress) std::_Exit(8);
  c.Step("all-reduce");
  wait();
  c.Sync(s);
}

// On the last rank a launch does not return before the device is idle, as the first one of a kernel
// whose module is loaded then (CUDA_MODULE_LOADING=LAZY): what it waits for needs the other ranks,
// which wait for what comes after the launch.
JOB(lazy_loading, 2) {
  cudaStream_t one = c.Stream(), other = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  c.Warm(dp, one);
  c.Warm(tp, other);
  c.Begin(one);
  if (c.rank == c.nranks - 1) {
    c.AllReduce(dp, one);
    c.BusyKernel(other, 0.001);
    c.AllReduce(tp, other);
  } else {
    c.AllReduce(tp, other);
    c.Sync(other);
    c.AllReduce(dp, one);
  }
  c.Sync(one);
  c.Sync(other);
}

// A kernel on each rank waits for a word that another device writes, as NVSHMEM's waits do.
JOB(device_waits, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  c.Step("wait on the device");
  c.BusyKernel(s, c.twin ? 0.1 : 3600);
  c.Sync(s);
}

std::atomic<bool> g_answered = false;
void AwaitAnswer(void*) {
  while (!g_answered) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Behind a host function on each rank, which polls for the answer of a service.
JOB(host_functions, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  g_answered = c.twin;
  CUDA_OK(cudaLaunchHostFunc(s, AwaitAnswer, nullptr));
  c.AllReduce(world, s);
  c.Sync(s);
}

// The last rank does not come, and the watchdog that would end the job hangs itself.
JOB(stuck_watchdog, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  std::thread watchdog([&] {
    if (c.twin) return;
    ReadForever();
    std::abort();
  });
  if (Guilty(c)) c.SleepInUserCode(3600);
  c.AllReduce(world, s);
  c.Sync(s);
  watchdog.join();
}

// On the last rank a monitor's hook in front of each collective waits for a lock that the monitor
// keeps while it waits for its server.
JOB(blocked_monitor, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  std::mutex books;
  std::atomic<bool> kept = false;
  c.Begin(s);
  std::thread monitor([&] {
    const std::lock_guard lock(books);
    kept = true;
    if (Guilty(c)) ReadForever();
  });
  while (!kept) sched_yield();
  { const std::lock_guard lock(books); }
  c.AllReduce(world, s);
  c.Sync(s);
  monitor.join();
}
