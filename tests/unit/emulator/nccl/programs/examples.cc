// Programs as the NCCL documentation describes them, one a word on the command line: they know
// nothing of an emulator and would run as they are on GPUs.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CHECK_CUDA(call)                                                                 \
  do {                                                                                   \
    cudaError_t status = (call);                                                         \
    if (status != cudaSuccess) {                                                         \
      std::fprintf(stderr, "%d: %s: %s\n", __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)
#define CHECK_NCCL(call)                                                                 \
  do {                                                                                   \
    ncclResult_t status = (call);                                                        \
    if (status != ncclSuccess) {                                                         \
      std::fprintf(stderr, "%d: %s: %s\n", __LINE__, #call, ncclGetErrorString(status)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)
#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

namespace {

constexpr int kDevices = 4;
constexpr size_t kCount = 32 << 10;

std::string program;  // argv[0]

// A rank's buffers and stream on the current device; the input is all `value`.
struct Work {
  explicit Work(float value) {
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&send), kCount * sizeof(float)));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&recv), kCount * sizeof(float)));
    std::vector<float> host(kCount, value);
    CHECK_CUDA(cudaMemcpy(send, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemset(recv, 0, kCount * sizeof(float)));
    CHECK_CUDA(cudaStreamCreate(&stream));
  }
  void Expect(float value) const {
    std::vector<float> host(kCount);
    CHECK_CUDA(cudaMemcpy(host.data(), recv, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    for (float x : host) CHECK(x == value);
  }
  void Free() const {
    CHECK_CUDA(cudaFree(send));
    CHECK_CUDA(cudaFree(recv));
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  float* send = nullptr;
  float* recv = nullptr;
  cudaStream_t stream = nullptr;
};

constexpr float kSum = kDevices * (kDevices + 1) / 2.0f;

// One process, one thread, several devices: calls for all devices are grouped.
void OneProcess() {
  ncclComm_t comms[kDevices];
  int devices[kDevices];
  for (int i = 0; i < kDevices; ++i) devices[i] = i;
  std::vector<Work> work;
  for (int i = 0; i < kDevices; ++i) {
    CHECK_CUDA(cudaSetDevice(i));
    work.emplace_back(static_cast<float>(i + 1));
  }
  CHECK_NCCL(ncclCommInitAll(comms, kDevices, devices));
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < kDevices; ++i) {
    CHECK_NCCL(ncclAllReduce(work[i].send, work[i].recv, kCount, ncclFloat, ncclSum, comms[i],
                             work[i].stream));
  }
  CHECK_NCCL(ncclGroupEnd());
  for (int i = 0; i < kDevices; ++i) {
    CHECK_CUDA(cudaSetDevice(i));
    CHECK_CUDA(cudaStreamSynchronize(work[i].stream));
    work[i].Expect(kSum);
    work[i].Free();
  }
  CHECK_NCCL(ncclGroupStart());
  for (ncclComm_t comm : comms) CHECK_NCCL(ncclCommFinalize(comm));
  CHECK_NCCL(ncclGroupEnd());
  for (ncclComm_t comm : comms) CHECK_NCCL(ncclCommDestroy(comm));
}

// What one rank does when it has its own thread or process.
void OneRank(const ncclUniqueId& id, int rank) {
  CHECK_CUDA(cudaSetDevice(rank));
  Work work(static_cast<float>(rank + 1));
  ncclComm_t comm;
  CHECK_NCCL(ncclCommInitRank(&comm, kDevices, id, rank));
  CHECK_NCCL(ncclAllReduce(work.send, work.recv, kCount, ncclFloat, ncclSum, comm, work.stream));
  CHECK_CUDA(cudaStreamSynchronize(work.stream));
  work.Expect(kSum);
  work.Free();
  CHECK_NCCL(ncclCommFinalize(comm));
  CHECK_NCCL(ncclCommDestroy(comm));
}

void ThreadPerDevice() {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int r = 0; r < kDevices; ++r) threads.emplace_back(OneRank, id, r);
  for (std::thread& thread : threads) thread.join();
}

// The launcher starts the program again for each rank, and hands the id to them in its arguments.
void ProcessPerDevice() {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::string text;
  for (unsigned char byte : id.internal) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  std::vector<pid_t> children;
  for (int r = 0; r < kDevices; ++r) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      execl(program.c_str(), program.c_str(), "rank", std::to_string(r).c_str(), text.c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// Every rank sends to the next and receives from the one before, in one group.
void Ring() {
  ncclComm_t comms[kDevices];
  CHECK_NCCL(ncclCommInitAll(comms, kDevices, nullptr));
  std::vector<Work> work;
  for (int i = 0; i < kDevices; ++i) {
    CHECK_CUDA(cudaSetDevice(i));
    work.emplace_back(static_cast<float>(i + 1));
  }
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < kDevices; ++i) {
    int next = (i + 1) % kDevices, previous = (i + kDevices - 1) % kDevices;
    CHECK_NCCL(ncclSend(work[i].send, kCount, ncclFloat, next, comms[i], work[i].stream));
    CHECK_NCCL(ncclRecv(work[i].recv, kCount, ncclFloat, previous, comms[i], work[i].stream));
  }
  CHECK_NCCL(ncclGroupEnd());
  for (int i = 0; i < kDevices; ++i) {
    CHECK_CUDA(cudaSetDevice(i));
    CHECK_CUDA(cudaStreamSynchronize(work[i].stream));
    work[i].Expect(static_cast<float>((i + kDevices - 1) % kDevices + 1));
    work[i].Free();
    CHECK_NCCL(ncclCommDestroy(comms[i]));
  }
}

// Buffers that NCCL allocated and was told of, and a window over them.
void RegisteredBuffers() {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  auto member = [id](int rank) {
    CHECK_CUDA(cudaSetDevice(rank));
    ncclComm_t comm;
    CHECK_NCCL(ncclCommInitRank(&comm, kDevices, id, rank));
    void* buffer = nullptr;
    void* handle = nullptr;
    ncclWindow_t window;
    CHECK_NCCL(ncclMemAlloc(&buffer, kCount * sizeof(float)));
    CHECK_NCCL(ncclCommRegister(comm, buffer, kCount * sizeof(float), &handle));
    CHECK_NCCL(ncclCommWindowRegister(comm, buffer, kCount * sizeof(float), &window,
                                      NCCL_WIN_COLL_SYMMETRIC));
    std::vector<float> host(kCount, static_cast<float>(rank + 1));
    CHECK_CUDA(cudaMemcpy(buffer, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    CHECK_CUDA(cudaMemcpy(host.data(), buffer, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    for (float x : host) CHECK(x == kSum);
    CHECK_NCCL(ncclCommWindowDeregister(comm, window));
    CHECK_NCCL(ncclCommDeregister(comm, handle));
    CHECK_NCCL(ncclMemFree(buffer));
    CHECK_NCCL(ncclCommDestroy(comm));
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < kDevices; ++r) threads.emplace_back(member, r);
  for (std::thread& thread : threads) thread.join();
}

// Polls as a program with a watchdog does. False when `keep_going` says so first.
template <typename KeepGoing>
bool AwaitReady(ncclComm_t comm, KeepGoing keep_going) {
  ncclResult_t state = ncclInProgress;
  while (keep_going()) {
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) {
      CHECK_NCCL(state);
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

// Non-blocking communicators. The second all-reduce is one that rank 0 alone makes: it gives up,
// and aborts instead of hanging.
void NonBlockingAbort() {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  auto member = [id](int rank) {
    CHECK_CUDA(cudaSetDevice(rank));
    Work work(static_cast<float>(rank + 1));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm;
    ncclResult_t started = ncclCommInitRankConfig(&comm, kDevices, id, rank, &config);
    CHECK(started == ncclSuccess || started == ncclInProgress);
    auto always = [] { return true; };
    AwaitReady(comm, always);
    started = ncclAllReduce(work.send, work.recv, kCount, ncclFloat, ncclSum, comm, work.stream);
    CHECK(started == ncclSuccess || started == ncclInProgress);
    AwaitReady(comm, always);
    CHECK_CUDA(cudaStreamSynchronize(work.stream));
    work.Expect(kSum);
    if (rank == 0) {
      started = ncclAllReduce(work.send, work.recv, kCount, ncclFloat, ncclSum, comm, work.stream);
      CHECK(started == ncclSuccess || started == ncclInProgress);
      AwaitReady(comm, always);
      int polls = 1000;
      while (--polls > 0 && cudaStreamQuery(work.stream) == cudaErrorNotReady) {
      }
      CHECK(polls == 0);
    }
    CHECK_NCCL(ncclCommAbort(comm));
    CHECK_CUDA(cudaStreamSynchronize(work.stream));
    work.Free();
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < kDevices; ++r) threads.emplace_back(member, r);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  std::string word = argc > 1 ? argv[1] : "";
  if (word == "one_process") {
    OneProcess();
  } else if (word == "thread_per_device") {
    ThreadPerDevice();
  } else if (word == "process_per_device") {
    ProcessPerDevice();
  } else if (word == "ring") {
    Ring();
  } else if (word == "registered_buffers") {
    RegisteredBuffers();
  } else if (word == "nonblocking_abort") {
    NonBlockingAbort();
  } else if (word == "rank" && argc == 4 && std::strlen(argv[3]) == 2 * NCCL_UNIQUE_ID_BYTES) {
    ncclUniqueId id;
    for (size_t i = 0; i < sizeof(id.internal); ++i) {
      id.internal[i] = static_cast<char>(std::stoi(std::string(argv[3] + 2 * i, 2), nullptr, 16));
    }
    OneRank(id, std::atoi(argv[2]));
  } else {
    std::fprintf(stderr, "which one?\n");
    return 2;
  }
  std::puts("done");
  return 0;
}
