// A replay written by gordian 0.1.0: the communication of a recorded job, as a benchmark.
//
// Recorded  ./train --steps 100
//           3 ranks, 1000 operations of NCCL, 5000 records; gordian 0.1.0
// Here      3 ranks, 12 operations
// Verified  not yet
//
// Build     g++ -std=c++17 -O1 -g -pthread bench.cc -o bench -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnccl -lcudart
// Run       ./bench         on as many GPUs as ranks; or on none: gordian run --emulator -- ./bench
//           --repeat COUNT       how often, after one repetition that is not counted (20)
//           --patience SECONDS   how long no rank may move before it counts as a hang (60)
// Expect    exit code 0: all results were right; the times are printed. 42: it hangs. 3: a wrong result, or something else
#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
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

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kAllToAll, kGather, kScatter, kTransfer };

// What is checked, each once. root: who sends, of a transfer.
struct Check {
  Kind kind;
  int comm;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root, to;
};
constexpr int kChecks = 5;
constexpr Check kCheckList[kChecks + 1] = {
    {Kind::kAllGather, 0, 1024, ncclFloat, ncclSum, -1, -1},
    {Kind::kAllReduce, 0, 1024, ncclBfloat16, ncclMax, -1, -1},
    {Kind::kTransfer, 0, 1024, ncclFloat, ncclSum, 0, 1},
    {Kind::kTransfer, 0, 1024, ncclFloat, ncclSum, 2, 0},
    {Kind::kTransfer, 0, 1024, ncclFloat, ncclSum, 1, 2},
    {}};

// What is timed, and which of these the calls of each rank are.
struct Row {
  const char* what;
  size_t bytes;
};
constexpr int kRows = 3;
constexpr Row kRowList[kRows + 1] = {
    {"AllReduce on dp", 2048},
    {"group: Recv on dp, Send on dp", 8192},
    {"graph g1", 0},
    {}};
constexpr int kTimed0[] = {0, 1, 2, -1};
constexpr int kTimed1[] = {0, 1, 2, -1};
constexpr int kTimed2[] = {0, 1, 2, -1};
constexpr const int* kTimed[kRanks] = {kTimed0, kTimed1, kTimed2};

// What the ranks report at their end.
struct Results {
  struct {
    int calls;  // in one repetition
    double median_us, least_us;
  } rows[kRanks][kRows + 1];
  double repetition_us[kRanks];
};
Results* results;
int repetitions = 20;  // --repeat; one more comes before them and is not counted

double Microseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// ---- Results: each kind of operation once, with values that every type holds exactly.

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
    default: return 1;
  }
}

// Of floating-point types of 8 and 16 bits: bits of the exponent and of the mantissa.
bool IsSmallFloat(ncclDataType_t type, int* exponent, int* mantissa) {
  switch (type) {
    case ncclFloat16: *exponent = 5, *mantissa = 10; return true;
    case ncclBfloat16: *exponent = 8, *mantissa = 7; return true;
    case ncclFloat8e4m3: *exponent = 4, *mantissa = 3; return true;
    case ncclFloat8e5m2: *exponent = 5, *mantissa = 2; return true;
    default: return false;
  }
}

// `value` is a whole number from 1 to 8.
void Put(ncclDataType_t type, void* at, int value) {
  int exponent = 0, mantissa = 0;
  if (IsSmallFloat(type, &exponent, &mantissa)) {
    int power = 0;
    while (value >> (power + 1) != 0) ++power;
    const unsigned fraction = static_cast<unsigned>(value - (1 << power)) << mantissa >> power;
    const unsigned bits = static_cast<unsigned>(power + (1 << (exponent - 1)) - 1) << mantissa | fraction;
    std::memcpy(at, &bits, SizeOf(type));  // little-endian
  } else if (type == ncclFloat32) {
    const float number = static_cast<float>(value);
    std::memcpy(at, &number, sizeof number);
  } else if (type == ncclFloat64) {
    const double number = value;
    std::memcpy(at, &number, sizeof number);
  } else {
    const long long number = value;
    std::memcpy(at, &number, SizeOf(type));
  }
}

double Get(ncclDataType_t type, const void* at) {
  int exponent = 0, mantissa = 0;
  if (IsSmallFloat(type, &exponent, &mantissa)) {
    unsigned bits = 0;
    std::memcpy(&bits, at, SizeOf(type));
    const int power = static_cast<int>(bits >> mantissa & ((1u << exponent) - 1)) - ((1 << (exponent - 1)) - 1);
    double number = 1 + static_cast<double>(bits & ((1u << mantissa) - 1)) / (1 << mantissa);
    for (int i = 0; i < power; ++i) number *= 2;
    for (int i = 0; i > power; --i) number /= 2;
    return number;
  }
  if (type == ncclFloat32) {
    float number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  if (type == ncclFloat64) {
    double number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  long long number = 0;
  std::memcpy(&number, at, SizeOf(type));
  return static_cast<double>(number);
}

// A sum of whole numbers is exact up to the width of the mantissa; beyond it each addition may round.
double Tolerance(ncclDataType_t type, int members) {
  int exponent = 0, mantissa = 0;
  return IsSmallFloat(type, &exponent, &mantissa) ? static_cast<double>(members) / (2 << mantissa) : 1e-6;
}

bool Reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter; }

int Given(const Check& check, int member) { return Reduces(check.kind) ? 1 + member % 2 : 1 + member % 8; }

double Reduced(const Check& check, int members) {
  double sum = 0, product = 1, least = Given(check, 0), most = least;
  for (int i = 0; i < members; ++i) {
    const double value = Given(check, i);
    sum += value;
    product *= value;
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  return check.op == ncclSum    ? sum
         : check.op == ncclProd ? product
         : check.op == ncclMax  ? most
         : check.op == ncclMin  ? least
                                : sum / members;
}

ncclResult_t Call(const Check& check, ncclComm_t comm, int me, cudaStream_t stream) {
  switch (check.kind) {
    case Kind::kAllReduce: return ncclAllReduce(in, out, check.count, check.type, check.op, comm, stream);
    case Kind::kAllGather: return ncclAllGather(in, out, check.count, check.type, comm, stream);
    case Kind::kReduceScatter: return ncclReduceScatter(in, out, check.count, check.type, check.op, comm, stream);
    case Kind::kBroadcast: return ncclBroadcast(in, out, check.count, check.type, check.root, comm, stream);
    case Kind::kReduce: return ncclReduce(in, out, check.count, check.type, check.op, check.root, comm, stream);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    case Kind::kAllToAll: return ncclAlltoAll(in, out, check.count, check.type, comm, stream);
    case Kind::kGather: return ncclGather(in, out, check.count, check.type, check.root, comm, stream);
    case Kind::kScatter: return ncclScatter(in, out, check.count, check.type, check.root, comm, stream);
#endif
    default:
      return me == check.root ? ncclSend(in, check.count, check.type, check.to, comm, stream)
                              : ncclRecv(out, check.count, check.type, check.root, comm, stream);
  }
}

// All ranks check in the same order, one after the other, so that nothing can hang here.
void CheckAll(Thread& me, std::initializer_list<ncclComm_t> comms) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<char> host;
  for (int i = 0; i < kChecks; ++i) {
    const Check& check = kCheckList[i];
    const ncclComm_t comm = comms.begin()[check.comm];
    if (comm == nullptr) continue;
    int member = 0, members = 0;
    NCCL(ncclCommUserRank(comm, &member));
    NCCL(ncclCommCount(comm, &members));
    if (check.kind == Kind::kTransfer && member != check.root && member != check.to) continue;
    const size_t width = SizeOf(check.type), n = static_cast<size_t>(members);
    const bool gives_all = check.kind == Kind::kReduceScatter || check.kind == Kind::kAllToAll || check.kind == Kind::kScatter;
    host.resize(check.count * width * (gives_all ? n : 1));
    for (size_t at = 0; at < host.size(); at += width) Put(check.type, &host[at], Given(check, member));
    CUDA(cudaMemcpyAsync(in, host.data(), host.size(), cudaMemcpyHostToDevice, stream));
    NCCL(Call(check, comm, member, stream));
    const bool gets_all = check.kind == Kind::kAllGather || check.kind == Kind::kAllToAll || check.kind == Kind::kGather;
    host.assign(check.count * width * (gets_all ? n : 1), 0);
    CUDA(cudaMemcpyAsync(host.data(), out, host.size(), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    const bool at_root = check.kind == Kind::kReduce || check.kind == Kind::kGather;
    const bool gets = check.kind == Kind::kTransfer ? member == check.to : !at_root || member == check.root;
    for (size_t at = 0; gets && at < host.size(); at += width) {
      const int block = static_cast<int>(at / width / check.count);
      const double wanted = Reduces(check.kind) ? Reduced(check, members) : Given(check, gets_all ? block : check.root);
      const double got = Get(check.type, &host[at]), off = got > wanted ? got - wanted : wanted - got;
      if (wanted < 100 && off > wanted * Tolerance(check.type, members)) {
        std::fprintf(stderr, "replay: rank %d: check %d: element %zu is %g, not %g\n", me.rank, i, at / width, got, wanted);
        Fail("a result is wrong", "kCheckList says of which operation", __LINE__);
      }
    }
  }
  CUDA(cudaStreamDestroy(stream));
}

// ---- Times

struct Timed {
  cudaEvent_t start, stop;
};
std::vector<Timed> timed;                // of this rank, in the order of its calls
std::vector<std::vector<double>> times;  // by row
double began_us;
int done = -1;  // repetitions; -1: not begun

void Start(Thread& me, size_t call, cudaStream_t stream) {
  while (timed.size() <= call) {
    timed.emplace_back();
    CUDA(cudaEventCreate(&timed.back().start));
    CUDA(cudaEventCreate(&timed.back().stop));
  }
  CUDA(cudaEventRecord(timed[call].start, stream));
}
void Stop(Thread& me, size_t call, cudaStream_t stream) { CUDA(cudaEventRecord(timed[call].stop, stream)); }

// Returns whether there is another repetition. The first one warms up.
bool Repeat(Thread& me) {
  CUDA(cudaDeviceSynchronize());
  times.resize(kRows);
  for (size_t call = 0; call < timed.size() && done > 0; ++call) {
    float milliseconds = 0;
    CUDA(cudaEventElapsedTime(&milliseconds, timed[call].start, timed[call].stop));
    times[static_cast<size_t>(kTimed[me.rank][call])].push_back(1e3 * milliseconds);
  }
  if (++done == 1) began_us = Microseconds();
  if (done <= repetitions) return true;
  results->repetition_us[me.rank] = (Microseconds() - began_us) / repetitions;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<double>& all = times[row];
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    results->rows[me.rank][row] = {static_cast<int>(all.size()) / repetitions, all[all.size() / 2], all[0]};
  }
  return false;
}

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

// The first use of a communicator connects its members. The recorded job had done that by now.
void Connect(Thread& me, ncclComm_t comm) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NCCL(ncclAllReduce(in, out, 1024, ncclFloat, ncclSum, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamDestroy(stream));
}

void Capture(Thread& me, cudaStream_t stream) {
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

cudaGraphExec_t EndCapture(Thread& me, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  return exec;
}

// Rank 0.
void Rank0(Thread& me) {
  ncclComm_t dp = nullptr;
  NCCL(MakeComm(&dp, "dp", 0, 3, me.rank));
  Connect(me, dp);
  const cudaStream_t s1 = NewStream(me, cudaStreamNonBlocking);
  cudaGraphExec_t g1 = nullptr;
  CheckAll(me, {dp});
  Capture(me, s1);
  NCCL(ncclAllGather(in, out, 1024, ncclFloat, dp, s1));
  g1 = EndCapture(me, s1);

  while (Repeat(me)) {
    // train.cc:88 step()
    Start(me, 0, s1);
    NCCL(ncclAllReduce(in, out, 1024, ncclBfloat16, ncclMax, dp, s1));
    Stop(me, 0, s1);
    Start(me, 1, s1);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(in, 1024, ncclFloat, 1, dp, s1));
    NCCL(ncclRecv(out, 1024, ncclFloat, 2, dp, s1));
    NCCL(ncclGroupEnd());
    Stop(me, 1, s1);
    Start(me, 2, s1);
    CUDA(cudaGraphLaunch(g1, s1));
    Stop(me, 2, s1);
    CUDA(cudaStreamSynchronize(s1));
  }
}

// Rank 1.
void Rank1(Thread& me) {
  ncclComm_t dp = nullptr;
  NCCL(MakeComm(&dp, "dp", 0, 3, me.rank));
  Connect(me, dp);
  const cudaStream_t s1 = NewStream(me, cudaStreamNonBlocking);
  cudaGraphExec_t g1 = nullptr;
  CheckAll(me, {dp});
  Capture(me, s1);
  NCCL(ncclAllGather(in, out, 1024, ncclFloat, dp, s1));
  g1 = EndCapture(me, s1);

  while (Repeat(me)) {
    // train.cc:88 step()
    Start(me, 0, s1);
    NCCL(ncclAllReduce(in, out, 1024, ncclBfloat16, ncclMax, dp, s1));
    Stop(me, 0, s1);
    Start(me, 1, s1);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(in, 1024, ncclFloat, 2, dp, s1));
    NCCL(ncclRecv(out, 1024, ncclFloat, 0, dp, s1));
    NCCL(ncclGroupEnd());
    Stop(me, 1, s1);
    Start(me, 2, s1);
    CUDA(cudaGraphLaunch(g1, s1));
    Stop(me, 2, s1);
    CUDA(cudaStreamSynchronize(s1));
  }
}

// Rank 2.
void Rank2(Thread& me) {
  ncclComm_t dp = nullptr;
  NCCL(MakeComm(&dp, "dp", 0, 3, me.rank));
  Connect(me, dp);
  const cudaStream_t s1 = NewStream(me, cudaStreamNonBlocking);
  cudaGraphExec_t g1 = nullptr;
  CheckAll(me, {dp});
  Capture(me, s1);
  NCCL(ncclAllGather(in, out, 1024, ncclFloat, dp, s1));
  g1 = EndCapture(me, s1);

  while (Repeat(me)) {
    // train.cc:88 step()
    Start(me, 0, s1);
    NCCL(ncclAllReduce(in, out, 1024, ncclBfloat16, ncclMax, dp, s1));
    Stop(me, 0, s1);
    Start(me, 1, s1);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(in, 1024, ncclFloat, 0, dp, s1));
    NCCL(ncclRecv(out, 1024, ncclFloat, 1, dp, s1));
    NCCL(ncclGroupEnd());
    Stop(me, 1, s1);
    Start(me, 2, s1);
    CUDA(cudaGraphLaunch(g1, s1));
    Stop(me, 2, s1);
    CUDA(cudaStreamSynchronize(s1));
  }
}

constexpr void (*kRankFunctions[kRanks])(Thread&) = {Rank0, Rank1, Rank2};
constexpr int kCreator[kComms + 1] = {0, -1};  // of unique ids
constexpr int kExpectedEnds[kRanks] = {0, 0, 0};  // exit codes

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

void PrintResults() {
  std::printf("%d checks of results passed\n%-44s %12s %6s %10s %10s %10s %8s\n", kChecks, "what", "bytes", "calls", "least us", "median us",
              "slowest", "GB/s");
  for (int row = 0; row < kRows; ++row) {
    std::vector<double> medians;
    double least = 0;
    int calls = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& own = results->rows[rank][row];
      if (own.calls == 0) continue;
      calls = own.calls;
      least = medians.empty() || own.least_us < least ? own.least_us : least;
      medians.push_back(own.median_us);
    }
    if (medians.empty()) continue;
    std::sort(medians.begin(), medians.end());
    const double median = medians[medians.size() / 2];
    std::printf("%-44s %12zu %6d %10.1f %10.1f %10.1f %8.2f\n", kRowList[row].what, kRowList[row].bytes, calls, least, median, medians.back(),
                median > 0 ? static_cast<double>(kRowList[row].bytes) / median / 1e3 : 0);
  }
  double slowest = 0;
  for (const double us : results->repetition_us) slowest = us > slowest ? us : slowest;
  std::printf("one repetition: %.1f us (%d of them)\n", slowest, repetitions);
}

int main(int argc, char** argv) {
  double patience = 60;
  free_running = true;  // there are no marks
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--repeat") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      repetitions = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--patience") == 0 && i + 1 < argc && std::atof(argv[i + 1]) > 0) {
      patience = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--repeat COUNT] [--patience SECONDS]\n", argv[0]);
      return 2;
    }
  }
  void* const memory = mmap(nullptr, sizeof(Results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 3;
  }
  results = static_cast<Results*>(memory);
  const int result = RunRanks(patience);
  if (result == 0) PrintResults();
  return result;
}
