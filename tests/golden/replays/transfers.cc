// A replay written by gordian 0.1.0: a small program that hangs as the recorded job did.
//
// Verdict   rank_exited, confirmed [communicator-order-cycle]
//           Ranks 0 and 1 wait for each other.
// Recorded  ./train --steps 100
//           3 ranks, 1000 operations of NCCL, 5000 records; gordian 0.1.0
// Here      3 ranks, 3 operations
// Verified  not yet
//
// Build     g++ -std=c++17 -O1 -g -pthread replay.cc -o replay -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnccl -lcudart
// Run       ./replay         on as many GPUs as ranks; or on none: gordian run --emulator -- ./replay
//           --free               do not force the recorded order between threads
//           --patience SECONDS   how long no rank may move before it counts as a hang (20)
// Expect    exit code 42: reproduced, and the position of each rank. 0: all ranks ended. 3: something else
#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kRanks = 3;
constexpr int kThreads = 1;  // of a rank, at most
constexpr int kComms = 1;
constexpr int kMarks = 0;
constexpr size_t kBufferBytes = 65536;

// Memory that the processes share. Mapped before they fork, so that all see it at the same address.
struct Shared {
  std::atomic<bool> id_made[kComms + 1];
  ncclUniqueId ids[kComms + 1];
  std::atomic<bool> marks[kMarks + 1];
  std::atomic<long> steps;  // of all threads: constant while no thread moves
  struct {
    std::atomic<const char*> doing;  // null: before the first call, or after the last
    std::atomic<int> line;
    std::atomic<bool> inside;  // in the call now
  } threads[kRanks][kThreads];
};
Shared* shared;
bool free_running;       // --free
void *in, *out;          // device memory for all operations: their results do not matter

[[noreturn]] void Fail(const char* what, const char* why, int line) {
  std::fprintf(stderr, "replay: line %d: %s: %s\n", line, what, why);
  std::_Exit(3);
}

// A thread of a rank, as the watchdog sees it.
struct Thread {
  int rank, thread;

  void Begin(const char* call, int line) {
    auto& mine = shared->threads[rank][thread];
    mine.doing = call;
    mine.line = line;
    mine.inside = true;
    ++shared->steps;
  }
  void End() {
    shared->threads[rank][thread].inside = false;
    ++shared->steps;
  }
};

#define CUDA(call)                                                                         \
  do {                                                                                     \
    me.Begin(#call, __LINE__);                                                             \
    const cudaError_t error_ = (call);                                                     \
    if (error_ != cudaSuccess) Fail(#call, cudaGetErrorString(error_), __LINE__);          \
    me.End();                                                                              \
  } while (0)
#define NCCL(call)                                                                         \
  do {                                                                                     \
    me.Begin(#call, __LINE__);                                                             \
    const ncclResult_t error_ = (call);                                                    \
    if (error_ != ncclSuccess) Fail(#call, ncclGetErrorString(error_), __LINE__);          \
    me.End();                                                                              \
  } while (0)

ncclResult_t MakeComm(ncclComm_t* comm, const char* name, int which, int ranks, int rank) {
  while (!shared->id_made[which]) usleep(100);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  return ncclCommInitRankConfig(comm, ranks, shared->ids[which], rank, &config);
}

cudaStream_t NewStream(Thread& me, unsigned flags) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

// So does the first transfer from one member to another.
void ConnectPairs(Thread& me, ncclComm_t comm, int rank, std::initializer_list<std::pair<int, int>> pairs) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NCCL(ncclGroupStart());
  for (const auto& [from, to] : pairs) {
    if (from == rank) NCCL(ncclSend(in, 1024, ncclFloat, to, comm, stream));
    if (to == rank) NCCL(ncclRecv(out, 1024, ncclFloat, from, comm, stream));
  }
  NCCL(ncclGroupEnd());
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamDestroy(stream));
}

// Ends the process without telling NCCL.
void Leave(Thread& me, int code) {
  me.Begin("leaves", 0);
  std::_Exit(code);
}

// Rank 0.
void Rank0(Thread& me) {
  ncclComm_t pp = nullptr;
  NCCL(MakeComm(&pp, "pp", 0, 3, me.rank));
  ConnectPairs(me, pp, 0, {{0, 1}});
  const cudaStream_t s1 = NewStream(me, cudaStreamNonBlocking);

  NCCL(ncclSend(in, 1024, ncclFloat, 1, pp, s1));
  CUDA(cudaStreamSynchronize(s1));
}

// Rank 1.
void Rank1(Thread& me) {
  ncclComm_t pp = nullptr;
  NCCL(MakeComm(&pp, "pp", 0, 3, me.rank));
  ConnectPairs(me, pp, 1, {{0, 1}, {1, 2}});
  const cudaStream_t s1 = NewStream(me, cudaStreamNonBlocking);

  NCCL(ncclGroupStart());
  NCCL(ncclRecv(out, 1024, ncclFloat, 0, pp, s1));
  NCCL(ncclRecv(out, 1024, ncclFloat, 2, pp, s1));
  NCCL(ncclGroupEnd());
  CUDA(cudaStreamSynchronize(s1));
}

// Rank 2.
void Rank2(Thread& me) {
  ncclComm_t pp = nullptr;
  NCCL(MakeComm(&pp, "pp", 0, 3, me.rank));
  ConnectPairs(me, pp, 2, {{1, 2}});

  Leave(me, 7);
}

constexpr void (*kRankFunctions[kRanks])(Thread&) = {Rank0, Rank1, Rank2};
constexpr int kCreator[kComms + 1] = {0, -1};  // of unique ids
constexpr int kExpectedEnds[kRanks] = {0, 0, 7};  // exit codes

void SetEnvironment() {}

void RunRank(int rank) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives the watchdog
  Thread me{rank, 0};
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  if (devices < kRanks) Fail("cudaGetDeviceCount", "there are fewer GPUs than ranks", __LINE__);
  CUDA(cudaSetDevice(rank));
  CUDA(cudaMalloc(&in, kBufferBytes));
  CUDA(cudaMalloc(&out, kBufferBytes));
  CUDA(cudaMemset(in, 0, kBufferBytes));
  for (int comm = 0; comm < kComms; ++comm) {
    if (kCreator[comm] != rank) continue;
    NCCL(ncclGetUniqueId(&shared->ids[comm]));
    shared->id_made[comm] = true;
  }
  kRankFunctions[rank](me);
  CUDA(cudaDeviceSynchronize());
  shared->threads[rank][0].doing = nullptr;
  std::_Exit(0);
}

void PrintPositions(const std::vector<bool>& ended) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (ended[static_cast<size_t>(rank)]) std::fprintf(stderr, "  rank %d has ended\n", rank);
    for (int thread = 0; thread < kThreads; ++thread) {
      const auto& at = shared->threads[rank][thread];
      const char* const doing = at.doing;
      if (doing == nullptr || ended[static_cast<size_t>(rank)]) continue;
      std::fprintf(stderr, "  rank %d", rank);
      if (thread > 0) std::fprintf(stderr, ", thread %d", thread);
      std::fprintf(stderr, ": %s %s", at.inside ? "is in" : "has done", doing);
      if (at.line > 0) std::fprintf(stderr, " (line %d)", at.line.load());
      std::fprintf(stderr, "\n");
    }
  }
}

double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns when all ranks have ended, one has failed, or none has made a step for `patience` seconds.
int Watch(const std::vector<pid_t>& ranks, double patience) {
  std::vector<bool> ended(ranks.size(), false);
  size_t left = ranks.size();
  long steps = -1;
  double moved = Seconds();
  int result = 0;
  while (left > 0 && result == 0) {
    usleep(5000);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      int status = 0;
      if (ended[rank] || waitpid(ranks[rank], &status, WNOHANG) != ranks[rank]) continue;
      ended[rank] = true;
      --left;
      moved = Seconds();
      const int end = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (end == kExpectedEnds[rank]) continue;
      std::fprintf(stderr, "replay: rank %d ended with %d, not with %d\n", static_cast<int>(rank), end, kExpectedEnds[rank]);
      result = 3;
    }
    if (shared->steps != steps) {
      steps = shared->steps;
      moved = Seconds();
    }
    if (left > 0 && result == 0 && Seconds() - moved > patience) {
      std::fprintf(stderr, "replay: reproduced: for %g s no rank has made a step\n", patience);
      result = 42;
    }
  }
  if (result != 0) PrintPositions(ended);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ended[rank]) kill(ranks[rank], SIGKILL);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ended[rank]) waitpid(ranks[rank], nullptr, 0);
  }
  if (result == 0) std::fprintf(stderr, "replay: all ranks have ended\n");
  return result;
}

// Runs each rank as a process. Returns the program's exit code.
int RunRanks(double patience) {
  SetEnvironment();
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 3;
  }
  shared = static_cast<Shared*>(memory);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) RunRank(rank);
    if (pid < 0) {
      std::perror("fork");
      for (const pid_t other : ranks) kill(other, SIGKILL);
      return 3;
    }
    ranks.push_back(pid);
  }
  return Watch(ranks, patience);
}

}  // namespace

int main(int argc, char** argv) {
  double patience = 20;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--free") == 0) {
      free_running = true;
    } else if (std::strcmp(argv[i], "--patience") == 0 && i + 1 < argc && std::atof(argv[i + 1]) > 0) {
      patience = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--free] [--patience SECONDS]\n", argv[0]);
      return 2;
    }
  }
  return RunRanks(patience);
}
