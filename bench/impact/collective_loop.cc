// An all-reduce, over and over, as a job would call it; prints what one takes. Run by impact.py
// with gordian and without.
//
//   bench_collective_loop [--ranks 2] [--batches 30] [--bytes 8] [--calls 2000] [--graph]
//                         [--in-turn] [--in-place]
//
// One process a rank, forked before CUDA is touched. A batch is `calls` all-reduces enqueued back
// to back and one wait; with --graph it is replays of a graph of 20. With --in-turn every second
// batch calls the library's own function, past whatever stands in front of it, so that both sides
// meet the same process, clocks and memory. Rank 0 prints a JSON object: microseconds an operation,
// one number a batch (and "direct_us" with --in-turn), until all are enqueued alone ("host_us":
// keep `calls` well below the thousand or so that a stream has room for), and the processor time of
// every thread of its process.
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kOperationsInGraph = 20;

struct Options {
  int ranks = 2;
  int batches = 30;
  size_t bytes = 8;
  int calls = 2000;
  bool graph = false;
  bool in_turn = false;
  bool in_place = false;
};

struct Shared {
  std::atomic<int> ready;
  std::atomic<int> arrived;
  ncclUniqueId id;
};

[[noreturn]] void Fail(const char* what, const char* why) {
  std::fprintf(stderr, "bench_collective_loop: %s: %s\n", what, why);
  std::_Exit(1);
}

void Cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) Fail(what, cudaGetErrorString(error));
}

void Nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) Fail(what, ncclGetErrorString(result));
}

double NowUs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

// Processor time in milliseconds by thread name: the first field after the name in parentheses is
// the state, the 12th and 13th user and system time in ticks.
std::map<std::string, double> ThreadTimes() {
  std::map<std::string, double> times;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return times;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t open = line.find('(');
    const size_t close = line.rfind(')');
    unsigned long user = 0;
    unsigned long system = 0;
    if (open == std::string::npos || close == std::string::npos ||
        std::sscanf(line.c_str() + close + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                    &user, &system) != 2) {
      continue;
    }
    times[line.substr(open + 1, close - open - 1)] +=
        static_cast<double>(user + system) * 1000.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  closedir(tasks);
  return times;
}

// The function of libnccl itself, by libc's own dlsym: a preloaded library's would give its own.
decltype(&ncclAllReduce) DirectAllReduce() {
  using Lookup = void* (*)(void*, const char*);
  void* const libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
  const auto look_up = reinterpret_cast<Lookup>(libc != nullptr ? dlsym(libc, "dlsym") : nullptr);
  void* const nccl = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY);
  void* const found =
      look_up != nullptr && nccl != nullptr ? look_up(nccl, "ncclAllReduce") : nullptr;
  if (found == nullptr) Fail("ncclAllReduce", "not in libnccl.so.2");
  return reinterpret_cast<decltype(&ncclAllReduce)>(found);
}

void Rank(int rank, const Options& options, Shared* shared) {
  Cuda(cudaSetDevice(rank), "cudaSetDevice");
  if (rank == 0) {
    Nccl(ncclGetUniqueId(&shared->id), "ncclGetUniqueId");
    shared->ready = 1;
  }
  while (shared->ready == 0) usleep(100);
  ncclComm_t comm = nullptr;
  Nccl(ncclCommInitRank(&comm, options.ranks, shared->id, rank), "ncclCommInitRank");
  cudaStream_t stream = nullptr;
  Cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const size_t count = options.bytes < 4 ? 1 : options.bytes / 4;
  void* in = nullptr;
  void* out = nullptr;
  Cuda(cudaMalloc(&in, count * 4), "cudaMalloc");
  if (options.in_place) {
    out = in;
  } else {
    Cuda(cudaMalloc(&out, count * 4), "cudaMalloc");
  }
  Cuda(cudaMemset(in, 0, count * 4), "cudaMemset");
  auto* const direct = options.in_turn ? DirectAllReduce() : nullptr;
  const auto all_reduce = [&] {
    Nccl(ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
  };
  const auto wait = [&] { Cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); };
  const auto all_reduce_directly = [&] {
    Nccl(direct(in, out, count, ncclFloat, ncclSum, comm, stream), "ncclAllReduce, directly");
  };
  for (int i = 0; i < 200; ++i) all_reduce();
  if (options.in_turn) {
    for (int i = 0; i < 200; ++i) all_reduce_directly();
  }
  wait();

  cudaGraphExec_t graph_exec = nullptr;
  if (options.graph) {
    cudaGraph_t graph = nullptr;
    Cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
         "cudaStreamBeginCapture");
    for (int i = 0; i < kOperationsInGraph; ++i) all_reduce();
    Cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    Cuda(cudaGraphInstantiate(&graph_exec, graph, 0), "cudaGraphInstantiate");
    Cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  double enqueued_us = 0;  // an operation's share of the last batch until all were enqueued
  const auto batch = [&](bool directly = false) {
    const double begin = NowUs();
    if (directly) {
      for (int i = 0; i < options.calls; ++i) all_reduce_directly();
    } else if (options.graph) {
      for (int i = 0; i < options.calls; i += kOperationsInGraph)
        Cuda(cudaGraphLaunch(graph_exec, stream), "cudaGraphLaunch");
    } else {
      for (int i = 0; i < options.calls; ++i) all_reduce();
    }
    enqueued_us = (NowUs() - begin) / options.calls;
    wait();
    return (NowUs() - begin) / options.calls;
  };
  // This thread stays on one processor: what wanders makes runs differ by more than what is
  // measured.
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(static_cast<size_t>(rank * processors / options.ranks), &mine);
  if (sched_setaffinity(0, sizeof mine, &mine) != 0)
    Fail("sched_setaffinity", std::strerror(errno));
  batch();  // warm
  ++shared->arrived;
  while (shared->arrived < options.ranks) usleep(50);
  const double begin = NowUs();
  std::vector<double> us;
  std::vector<double> direct_us;
  std::vector<double> host_us;
  for (int i = 0; i < options.batches; ++i) {
    us.push_back(batch());
    host_us.push_back(enqueued_us);
    if (options.in_turn) direct_us.push_back(batch(true));
  }
  const double wall_ms = (NowUs() - begin) / 1e3;

  if (rank == 0) {
    const auto print = [](const char* name, const std::vector<double>& values) {
      std::printf(", \"%s\": [", name);
      for (size_t i = 0; i < values.size(); ++i)
        std::printf("%s%.3f", i == 0 ? "" : ", ", values[i]);
      std::printf("]");
    };
    std::printf("{\"bytes\": %zu, \"graph\": %s, \"wall_ms\": %.1f", options.bytes,
                options.graph ? "true" : "false", wall_ms);
    print("us", us);
    print("host_us", host_us);
    print("direct_us", direct_us);
    std::printf(", \"threads_ms\": {");
    bool first = true;
    for (const auto& [name, ms] : ThreadTimes()) {
      std::printf("%s\"%s\": %.0f", first ? "" : ", ", name.c_str(), ms);
      first = false;
    }
    std::printf("}}\n");
    std::fflush(stdout);
  }
  if (graph_exec != nullptr) Cuda(cudaGraphExecDestroy(graph_exec), "cudaGraphExecDestroy");
  Nccl(ncclCommDestroy(comm), "ncclCommDestroy");
  Cuda(cudaFree(in), "cudaFree");
  if (out != in) Cuda(cudaFree(out), "cudaFree");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] {
      if (i + 1 >= argc) Fail(word.c_str(), "a number is missing");
      return std::atol(argv[++i]);
    };
    if (word == "--graph") {
      options.graph = true;
    } else if (word == "--in-turn") {
      options.in_turn = true;
    } else if (word == "--in-place") {
      options.in_place = true;
    } else if (word == "--ranks") {
      options.ranks = static_cast<int>(number());
    } else if (word == "--batches") {
      options.batches = static_cast<int>(number());
    } else if (word == "--bytes") {
      options.bytes = static_cast<size_t>(number());
    } else if (word == "--calls") {
      options.calls = static_cast<int>(number());
    } else {
      Fail(word.c_str(),
           "unknown option; known: --ranks --batches --bytes --calls --graph --in-turn --in-place");
    }
  }
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap", std::strerror(errno));
  auto* shared = new (memory) Shared{};
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) Fail("fork", std::strerror(errno));
    if (child == 0) {
      Rank(rank, options, shared);
      std::_Exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) failed = 1;
  }
  return failed;
}
