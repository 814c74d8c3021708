// A program that calls NCCL and CUDA (the fake ones) as job programs do. It knows nothing of the
// shim and runs the same without it. Its first argument names what it does; exit code 0: every call
// did what it should have done.
// Names in the table are the exported ones: no macros that rename them.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "tests/unit/interpose/fake_libraries.h"
#include "tests/unit/interpose/job_calls.h"
#include "tests/unit/interpose/job_cupti.h"
#include "tests/unit/interpose/job_waits.h"

namespace ring = gordian::ring;

namespace {

// Tells the test that the job is where it wants it.
void Say(const char* word) {
  std::printf("%s\n", word);
  std::fflush(stdout);
}
[[noreturn]] void Hang() {
  for (;;) pause();
}

void Operations() {
  ncclComm_t comm = MakeComm(4, 1);
  cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(ncclBroadcast(g_buffer, g_buffer + 8, 8, ncclHalf, 3, comm, stream) == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 2, comm, stream) == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 3, comm, stream) == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 2, comm, stream) == ncclSuccess);
  CHECK(ncclRecv(g_buffer, 4, ncclInt8, 2, comm, stream) == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclAllReduce, ncclInvalidArgument);
  CHECK(AllReduce(comm, stream) == ncclInvalidArgument);
  fake_set_result_nccl(ring::kCall_ncclAllReduce, 0);
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

void Groups() {
  ncclComm_t comm = MakeComm();
  cudaStream_t first = MakeStream();
  cudaStream_t second = MakeStream();
  CHECK(Launch(first) == cudaSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 1, comm, first) == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclRecv(g_buffer, 4, ncclInt8, 1, comm, second) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(AllReduce(comm, first) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
}

// Groups of which NCCL launches nothing, and the same operations again.
void DroppedGroups() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 1, comm, stream) == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclGroupEnd, ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  fake_set_result_nccl(ring::kCall_ncclGroupEnd, 0);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(ncclGroupSimulateEnd(nullptr) == ncclSuccess);
  CHECK(ncclSend(g_buffer, 4, ncclInt8, 1, comm, stream) == ncclSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
}

void FailedCommCalls() {
  ncclComm_t comm = MakeComm();
  for (const int call : {int{ring::kCall_ncclCommFinalize}, int{ring::kCall_ncclCommRevoke},
                         int{ring::kCall_ncclCommDestroy}, int{ring::kCall_ncclCommAbort}}) {
    fake_set_result_nccl(call, ncclInvalidArgument);
  }
  CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
  CHECK(ncclCommRevoke(comm, 0) == ncclInvalidArgument);
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
}

void Inits() {
  ncclUniqueId id = {};
  std::strcpy(id.internal, "the id");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "data parallel";
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 8, id, 5, &config) == ncclSuccess);
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(comm, 3, 0, &child, nullptr) == ncclSuccess && child != nullptr);
  ncclComm_t none = comm;
  CHECK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr) == ncclSuccess && !none);
  ncclComm_t shrunk = nullptr;
  int excluded = 1;
  CHECK(ncclCommShrink(comm, &excluded, 1, &shrunk, nullptr, 0) == ncclSuccess);
  ncclComm_t all[3];
  CHECK(ncclCommInitAll(all, 3, nullptr) == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclCommInitRank, ncclInternalError);
  ncclComm_t failed = nullptr;
  CHECK(ncclCommInitRank(&failed, 2, id, 0) == ncclInternalError);
  CHECK(ncclCommFinalize(child) == ncclSuccess);
  CHECK(ncclCommDestroy(child) == ncclSuccess);
  CHECK(ncclCommRevoke(comm, 0) == ncclSuccess);
  CHECK(ncclCommAbort(all[0]) == ncclSuccess);
  // In a group, NCCL says what became of it only at the end.
  fake_set_result_nccl(ring::kCall_ncclCommInitRank, 0);
  ncclComm_t grouped[2];
  CHECK(ncclGroupStart() == ncclSuccess);
  for (int i = 0; i < 2; ++i) CHECK(ncclCommInitRank(&grouped[i], 2, id, i) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
}

void Waits() {
  cudaStream_t stream = MakeStream();
  auto* event = reinterpret_cast<cudaEvent_t>(0x5000);
  CHECK(Launch(stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaFree(g_buffer) == cudaSuccess);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaMemcpy(g_buffer, g_buffer, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemcpy(g_buffer, g_buffer, 4, cudaMemcpyDeviceToDevice) == cudaSuccess);
  fake_set_result_cudart(ring::kCall_cudaStreamSynchronize, cudaErrorLaunchFailure);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
}

void Events() {
  cudaStream_t one = MakeStream();
  cudaStream_t two = MakeStream(cudaStreamDefault);
  auto* event = reinterpret_cast<cudaEvent_t>(0x5000);
  for (int i = 0; i < 5; ++i) CHECK(Launch(one) == cudaSuccess);
  CHECK(Launch(two) == cudaSuccess);
  CHECK(cudaMemcpyAsync(g_buffer, g_buffer, 4, cudaMemcpyDeviceToDevice, one) == cudaSuccess);
  CHECK(cudaEventRecord(event, one) == cudaSuccess);
  CHECK(Launch(one) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(two, event, 0) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(
            two, [](void*) {}, nullptr) == cudaSuccess);
  CHECK(Launch(two) == cudaSuccess);
  CHECK(Launch(nullptr) == cudaSuccess);
  CHECK(Launch(reinterpret_cast<cudaStream_t>(0x6000)) == cudaSuccess);  // made out of sight
  CHECK(cudaStreamDestroy(two) == cudaSuccess);
}

// A handle that is destroyed and given again; one that was made out of sight, and is made again.
void EventHandles() {
  cudaStream_t stream = MakeStream();
  auto* event = reinterpret_cast<cudaEvent_t>(0x5000);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaEventCreate(&event) == cudaSuccess);  // leaves the handle as it is
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  fake_set_result_cudart(ring::kCall_cudaEventCreate, cudaErrorInvalidValue);
  CHECK(cudaEventCreate(&event) == cudaErrorInvalidValue);
  CUevent made = nullptr;
  CHECK(cuEventCreate(&made, 0) == CUDA_SUCCESS && made != nullptr);
  CHECK(cuEventDestroy_v2(made) == CUDA_SUCCESS);
}

void Polls() {
  auto* event = reinterpret_cast<cudaEvent_t>(0x5000);
  fake_set_result_cudart(ring::kCall_cudaEventQuery, cudaErrorNotReady);
  cudaStream_t stream = MakeStream();
  for (int i = 0; i < 150; ++i) CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  Launch(stream);
  for (int i = 0; i < 120; ++i) CHECK(cudaEventQuery(event) == cudaErrorNotReady);
}

void PollsEnd() {
  Polls();
  fake_set_result_cudart(ring::kCall_cudaEventQuery, 0);
  CHECK(cudaEventQuery(reinterpret_cast<cudaEvent_t>(0x5000)) == cudaSuccess);
}

void Blocked() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  fake_block_cudart(ring::kCall_cudaStreamSynchronize);
  Say("ready");
  cudaStreamSynchronize(stream);
}

// More events than a small ring holds, with operations behind them.
void Flood() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  for (int i = 0; i < 1000; ++i) {
    CHECK(cudaEventRecord(reinterpret_cast<cudaEvent_t>(0x5000), stream) == cudaSuccess);
  }
  for (int i = 0; i < 2; ++i) CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

std::atomic<bool> g_slow_disk = false;
}  // namespace

// The shim asks for space by this function, and finds ours first: a file system that takes its
// time.
extern "C" int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (g_slow_disk) usleep(20000);
  return syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace {

// Each takes a slot and a ring at its first call, all at the same time.
void BeginTogether() {
  constexpr int kThreads = 40;
  g_slow_disk = true;
  cudaStream_t stream = MakeStream();
  pthread_barrier_t barrier;
  CHECK(pthread_barrier_init(&barrier, nullptr, kThreads) == 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      pthread_barrier_wait(&barrier);
      CHECK(cudaEventRecord(reinterpret_cast<cudaEvent_t>(0x5000), stream) == cudaSuccess);
      pthread_barrier_wait(&barrier);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Threads() {
  ncclComm_t comm = MakeComm();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      cudaStream_t stream = MakeStream();
      for (int i = 0; i < 200; ++i) {
        CHECK(ncclSend(g_buffer, 1, ncclInt8, 1, comm, stream) == ncclSuccess);
        CHECK(Launch(stream) == cudaSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One after the other: once nobody collects, no slot may be taken over.
void ManyThreads() {
  for (int t = 0; t < 400; ++t) {
    std::thread([] {
      CHECK(cudaEventRecord(reinterpret_cast<cudaEvent_t>(0x5000), nullptr) == cudaSuccess);
    }).join();
  }
}

// In batches, so that somebody can collect in between.
void CollectedThreads() {
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  for (int batch = 0; batch < 20; ++batch) {
    Say("ready");
    char word[16];
    CHECK(read(STDIN_FILENO, word, sizeof(word)) > 0);
    for (int t = 0; t < 20; ++t) std::thread([] { Launch(nullptr); }).join();
  }
}

void Fork() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; ++i) CHECK(Launch(nullptr) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const pid_t idle = fork();  // a child that calls nothing makes no ring
  if (idle == 0) _exit(0);
  CHECK(waitpid(idle, &status, 0) == idle && status == 0);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
}

// Children that call what nobody has called yet, of a parent whose other thread opens and closes a
// library all the while: the loader's lock may be taken in them for good.
void ForkBesideOpening() {
  cudaStream_t stream = MakeStream();
  std::atomic<int> opened = 0;
  std::atomic<bool> over = false;
  std::thread opener([&opened, &over] {
    for (; !over; ++opened) {
      void* library = dlopen(getenv("JOB_CUPTI"), RTLD_NOW | RTLD_LOCAL);
      CHECK(library != nullptr && dlclose(library) == 0);
    }
  });
  for (int i = 0; i < 100; ++i) {
    for (const int before = opened; opened == before;) sched_yield();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(60);  // the end of one that hangs
      ncclUniqueId id;
      _exit(ncclGetUniqueId(&id) == ncclSuccess && cudaStreamQuery(stream) == cudaSuccess ? 3 : 4);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  }
  over = true;
  opener.join();
}

void Exec() {
  ncclComm_t comm = MakeComm();
  CHECK(AllReduce(comm, nullptr) == ncclSuccess);
  execl("/proc/self/exe", "job", "operations", nullptr);
  CHECK(false);
}

void Many() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  for (int i = 0; i < 1000; ++i) CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(fake_calls_nccl(ring::kCall_ncclAllReduce) == 1000);
}

// Work on a stream long after the operation in front of it, and an operation behind it.
void Times() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  auto* event = reinterpret_cast<cudaEvent_t>(g_buffer);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  usleep(100000);
  for (int i = 0; i < 100; ++i) CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
}

void ManyHandles() {
  for (int i = 1; i <= 10000; ++i) {
    ncclComm_t comm = MakeComm();
    cudaStream_t stream = MakeStream();
    CHECK(AllReduce(comm, stream) == ncclSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    if (i % 1000 != 0) continue;
    Say("ready");
    char word[16];
    CHECK(read(STDIN_FILENO, word, sizeof(word)) > 0);
  }
}

// All slots of streams have outstanding markers when the device is reset.
void DeviceReset() {
  ncclComm_t comm = MakeComm();
  std::vector<cudaStream_t> streams;
  fake_gpu_stop();
  while (streams.size() < ring::kMaxStreams) {
    streams.push_back(MakeStream());
    CHECK(AllReduce(comm, streams.back()) == ncclSuccess);
  }
  CHECK(cudaDeviceReset() == cudaSuccess);
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  for (int i = 0; i < 10; ++i) CHECK(AllReduce(comm, MakeStream()) == ncclSuccess);
  Say("ready");
  char word[16];
  CHECK(read(STDIN_FILENO, word, sizeof(word)) > 0);
  fake_gpu_go();
  Say("ready");
  Hang();
}

void LiveHandles() {
  for (int i = 0; i < 3000; ++i) {
    ncclComm_t comm = MakeComm();
    CHECK(AllReduce(comm, MakeStream()) == ncclSuccess);
  }
}

void Markers() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);  // done: 1
  fake_gpu_stop();
  CHECK(AllReduce(comm, stream) == ncclSuccess);  // 2: no marker in front, nothing came between
  CHECK(fake_events_recorded() == 2);
  CHECK(Launch(stream) == cudaSuccess);           // 3
  CHECK(AllReduce(comm, stream) == ncclSuccess);  // 4: a marker in front, and one behind
  CHECK(fake_events_recorded() == 4);
  fake_gpu_finish(2);  // 2 and the kernels of 3
  Say("ready");
  char word[16];
  CHECK(read(STDIN_FILENO, word, sizeof(word)) > 0);
  for (int i = 0; i < 2000; ++i) CHECK(AllReduce(comm, stream) == ncclSuccess);
  fake_gpu_go();
  Say("ready");
  Hang();
}

void Capture() {
  ncclComm_t comm = MakeComm();
  cudaStream_t stream = MakeStream();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  fake_set_capturing(true);
  CHECK(Launch(stream) == cudaSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(fake_events_recorded() == 0);
  fake_set_capturing(false);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
}

void NonBlocking() {
  ncclUniqueId id = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = MakeStream();
  fake_set_async_state(ncclInProgress);
  fake_set_result_nccl(ring::kCall_ncclCommInitRankConfig, ncclInProgress);
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress);
  Say("initing");
  char word[16];
  CHECK(read(STDIN_FILENO, word, sizeof(word)) > 0);
  fake_set_async_state(ncclSuccess);
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclAllReduce, ncclInProgress);
  CHECK(AllReduce(comm, stream) == ncclInProgress);
  CHECK(fake_events_recorded() == 0);
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess);
  CHECK(fake_events_recorded() == 1);
}

// What nobody asks about any more before the communicator goes.
void NonBlockingUnasked() {
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comm = MakeComm();
    cudaStream_t stream = MakeStream();
    fake_set_result_nccl(ring::kCall_ncclAllReduce, ncclInProgress);
    CHECK(AllReduce(comm, stream) == ncclInProgress);
    CHECK(fake_events_recorded() == static_cast<uint64_t>(i));
    if (i == 0) {
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
      CHECK(fake_events_recorded() == 1);
    } else {
      CHECK(cudaStreamDestroy(stream) == cudaSuccess);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);  // no event on a stream that is gone
      CHECK(fake_events_recorded() == 1);
    }
  }
}

// The main thread ends by pthread_exit and another one some time later: the process must end.
void MainThreadExits() {
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  std::thread([] {
    usleep(200000);
    Launch(nullptr);
  }).detach();
  pthread_exit(nullptr);
}

// Something that NCCL does inside of a call, and that the shim must take for a part of it.
void Nested() {
  ncclComm_t comm = MakeComm();
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(ncclBcast(g_buffer, 4, ncclInt8, 0, comm, nullptr) == ncclSuccess);
}

template <typename Result, typename... Parameters>
void CallPlainly(const char* name, int call, int result, Result (*)(Parameters...)) {
  const auto function = reinterpret_cast<Result (*)(Parameters...)>(dlsym(RTLD_DEFAULT, name));
  CHECK(function != nullptr);
  errno = 0;
  if constexpr (std::is_void_v<Result>) {
    function(Default<Parameters>()...);
  } else {
    const Result got = function(Default<Parameters>()...);
    bool right = false;
    if constexpr (std::is_same_v<Result, const char*>) {
      right = std::strcmp(got, gordian::fake::kText) == 0;
    } else {
      right = static_cast<int>(got) == result;
    }
    if (!right) std::fprintf(stderr, "%s: wrong result\n", name);
    CHECK(right);
  }
  if (errno != gordian::fake::ErrnoOf(call)) std::fprintf(stderr, "%s: errno %d\n", name, errno);
  CHECK(errno == gordian::fake::ErrnoOf(call));
}

// The shim's watcher calls this function for itself meanwhile, on a thread of its own.
bool IsWatchersToo(const char* name) {
  return std::string_view(name) == "cuThreadExchangeStreamCaptureMode";
}

// Every row: what the real function returns and leaves in errno is what the caller gets, and the
// real function runs exactly once.
void PassThrough() {
  for (const int result : {0, 3}) {
#define GORDIAN_HOOK(library, name, effect, rules, result_type, parameters, arguments) \
  {                                                                                    \
    fake_set_result_##library(ring::kCall_##name, result);                             \
    const uint64_t before = fake_calls_##library(ring::kCall_##name);                  \
    CallPlainly(#name, ring::kCall_##name, result,                                     \
                static_cast<result_type(*) parameters>(nullptr));                      \
    const uint64_t calls = fake_calls_##library(ring::kCall_##name) - before;          \
    const bool right = calls == 1 || (calls > 1 && IsWatchersToo(#name));              \
    if (!right) std::fprintf(stderr, "%s\n", #name);                                   \
    CHECK(right);                                                                      \
  }
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> programs = {
      {"operations", Operations},
      {"groups", Groups},
      {"dropped-groups", DroppedGroups},
      {"failed-comm-calls", FailedCommCalls},
      {"inits", Inits},
      {"waits", Waits},
      {"events", Events},
      {"event-handles", EventHandles},
      {"memory-words", MemoryWords},
      {"children", Children},
      {"signals", Signals},
      {"many-signals", ManySignals},
      {"polls", Polls},
      {"polls-end", PollsEnd},
      {"blocked", Blocked},
      {"flood", Flood},
      {"begin-together", BeginTogether},
      {"threads", Threads},
      {"many-threads", ManyThreads},
      {"collected-threads", CollectedThreads},
      {"fork", Fork},
      {"fork-beside-opening", ForkBesideOpening},
      {"exec", Exec},
      {"many", Many},
      {"cupti", Cupti},
      {"cupti-rows", CuptiRows},
      {"cupti-named-late", CuptiNamedLate},
      {"cupti-beside", CuptiBeside},
      {"times", Times},
      {"many-handles", ManyHandles},
      {"live-handles", LiveHandles},
      {"device-reset", DeviceReset},
      {"markers", Markers},
      {"capture", Capture},
      {"non-blocking", NonBlocking},
      {"non-blocking-unasked", NonBlockingUnasked},
      {"main-thread-exits", MainThreadExits},
      {"nested", Nested},
      {"pass-through", PassThrough},
      {"nothing", [] {}},
  };
  const auto program = programs.find(argc > 1 ? argv[1] : "");
  if (program == programs.end()) return 2;
  program->second();
  return 0;
}
