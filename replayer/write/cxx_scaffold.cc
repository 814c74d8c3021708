#include "replayer/write/cxx_scaffold.h"

namespace gordian::replayer {

const std::string_view kCxxBeforeRanks = R"text(
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
)text";

const CxxHelper kCxxHelpers[] = {
    {"MakeComm(", R"text(
ncclResult_t MakeComm(ncclComm_t* comm, const char* name, int which, int ranks, int rank) {
  while (!shared->id_made[which]) usleep(100);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  return ncclCommInitRankConfig(comm, ranks, shared->ids[which], rank, &config);
}
)text"},
    {"SplitComm(", R"text(
ncclResult_t SplitComm(ncclComm_t parent, int color, int key, ncclComm_t* comm, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  return ncclCommSplit(parent, color, key, comm, &config);
}
)text"},
    {"Reach(", R"text(
// Forces the recorded order between threads: a thread waits for a mark until another reaches it.
void Reach(int mark) { shared->marks[mark] = true; }
)text"},
    {"Await(", R"text(
void Await(Thread& me, int mark) {
  me.Begin("awaits its turn", mark);
  while (!free_running && !shared->marks[mark]) usleep(100);
  me.End();
}
)text"},
    {"NewStream(", R"text(
cudaStream_t NewStream(Thread& me, unsigned flags) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}
)text"},
    {"NewEvent(", R"text(
cudaEvent_t NewEvent(Thread& me) {
  cudaEvent_t event = nullptr;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}
)text"},
    {"Connect(", R"text(
// The first use of a communicator connects its members. The recorded job had done that by now.
void Connect(Thread& me, ncclComm_t comm) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NCCL(ncclAllReduce(in, out, 1024, ncclFloat, ncclSum, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamDestroy(stream));
}
)text"},
    {"ConnectPairs(", R"text(
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
)text"},
    {"Capture(", R"text(
void Capture(Thread& me, cudaStream_t stream) {
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
)text"},
    {"EndCapture(", R"text(
cudaGraphExec_t EndCapture(Thread& me, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  return exec;
}
)text"},
    {"Scratch(", R"text(
void* Scratch(Thread& me, size_t bytes) {
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes));
  return memory;
}
)text"},
    {"WindowMemory(", R"text(
void* WindowMemory(Thread& me) {
  void* memory = nullptr;
  NCCL(ncclMemAlloc(&memory, kWindowBytes));
  return memory;
}
)text"},
    {"Nothing,", R"text(
void Nothing(void*) {}
)text"},
    {"Poll(", R"text(
template <typename Query>
void Poll(Thread& me, const char* what, Query query) {
  me.Begin(what, 0);
  while (query() == cudaErrorNotReady) usleep(100);
  me.End();
}
)text"},
    {"Leave(", R"text(
// Ends the process without telling NCCL.
void Leave(Thread& me, int code) {
  me.Begin("leaves", 0);
  std::_Exit(code);
}
)text"},
    {"Signal(", R"text(
void Signal(Thread& me, int signal) {
  me.Begin("gets a signal", 0);
  raise(signal);
}
)text"},
    {"SleepForEver(", R"text(
// In the recorded job the thread ran its own code here, and made no further call.
void SleepForEver(Thread& me) {
  me.Begin("sleeps in its own code", 0);
  while (true) pause();
}
)text"},
    {"ComputeForEver(", R"text(
// In the recorded job the thread ran its own code here, and made no further call.
void ComputeForEver(Thread& me) {
  me.Begin("computes in its own code", 0);
  for (volatile unsigned long n = 0;; n = n + 1) {
  }
}
)text"},
};
const int kCxxHelperCount = sizeof kCxxHelpers / sizeof kCxxHelpers[0];

const std::string_view kCxxRunRank = R"text(
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
)text";

const std::string_view kCxxWatch = R"text(
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
)text";

const std::string_view kCxxMain = R"text(
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
)text";

}  // namespace gordian::replayer
