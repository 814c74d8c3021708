// Times one collective of NCCL on this machine, as samples for the cost model: `gordian bench
// collectives` starts it. A program of its own, linked as a user's is: gordian links neither NCCL
// nor CUDA.
//
//   gordian-measure-collectives [--ranks N] [--operation all_gather|reduce_scatter] [--from BYTES]
//   [--to BYTES]
//
// Prints CSV lines plan,ranks,bytes,us: bytes of the whole buffer, microseconds a call. A process a
// rank, each on a device of its own. Calls are enqueued back to back, so many that a batch takes a
// few milliseconds; of nine batches the median, of each the slowest rank.
#include <cuda_runtime_api.h>
#include <errno.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kMostRanks = 64;
constexpr int kBatches = 9;
constexpr int kMostCalls = 2000;
constexpr double kBatchUs = 5000;
constexpr int kWarmCalls = 5;
constexpr uint64_t kStep = 4;  // from one size to the next

struct Options {
  int ranks = 0;  // as many as there are devices
  bool reduce_scatter = false;
  uint64_t from = 8 << 10;
  uint64_t to = 64 << 20;
};

// Shared by all ranks.
struct Board {
  std::atomic<int> devices;
  std::atomic<int> has_id;
  ncclUniqueId id;
  std::atomic<int> arrived;  // counts on, barrier after barrier
  std::atomic<int> calls;
  double us[kMostRanks];
};

[[noreturn]] void Fail(const std::string& what, const char* why) {
  std::fprintf(stderr, "gordian: bench collectives: %s: %s\n", what.c_str(), why);
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

class Rank {
 public:
  Rank(int rank, const Options& options, Board* board)
      : rank_(rank), options_(options), board_(*board) {}

  void Run() {
    Cuda(cudaSetDevice(rank_), "cudaSetDevice");
    if (rank_ == 0) {
      Nccl(ncclGetUniqueId(&board_.id), "ncclGetUniqueId");
      board_.has_id = 1;
    }
    while (board_.has_id == 0) usleep(100);
    Nccl(ncclCommInitRank(&comm_, options_.ranks, board_.id, rank_), "ncclCommInitRank");
    Cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const uint64_t unit = 4 * static_cast<uint64_t>(options_.ranks);
    for (uint64_t bytes = options_.from; bytes <= options_.to; bytes *= kStep)
      Measure(std::max(bytes / unit, uint64_t{1}) * unit);
    Nccl(ncclCommDestroy(comm_), "ncclCommDestroy");
  }

 private:
  void Meet() {
    ++met_;
    ++board_.arrived;
    while (board_.arrived < met_ * options_.ranks) usleep(20);
  }

  void Measure(uint64_t bytes) {
    const size_t share = bytes / 4 / static_cast<size_t>(options_.ranks);
    void* whole = nullptr;
    void* part = nullptr;
    Cuda(cudaMalloc(&whole, bytes), "cudaMalloc");
    Cuda(cudaMalloc(&part, share * 4), "cudaMalloc");
    Cuda(cudaMemset(whole, 0, bytes), "cudaMemset");
    Cuda(cudaMemset(part, 0, share * 4), "cudaMemset");
    const auto batch = [&](int calls) {
      const double begin = NowUs();
      for (int i = 0; i < calls; ++i) {
        if (options_.reduce_scatter) {
          Nccl(ncclReduceScatter(whole, part, share, ncclFloat, ncclSum, comm_, stream_),
               "ncclReduceScatter");
        } else {
          Nccl(ncclAllGather(part, whole, share, ncclFloat, comm_, stream_), "ncclAllGather");
        }
      }
      Cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      return (NowUs() - begin) / calls;
    };
    batch(kWarmCalls);
    Meet();
    const double once = batch(kWarmCalls);
    if (rank_ == 0) board_.calls = std::clamp(static_cast<int>(kBatchUs / once), 1, kMostCalls);
    Meet();
    const int calls = board_.calls;
    std::vector<double> us;
    for (int i = 0; i < kBatches; ++i) {
      Meet();
      board_.us[rank_] = batch(calls);
      Meet();
      us.push_back(*std::max_element(board_.us, board_.us + options_.ranks));
    }
    std::nth_element(us.begin(), us.begin() + kBatches / 2, us.end());
    if (rank_ == 0) {
      std::printf("ring,%d,%llu,%.3f\n", options_.ranks, static_cast<unsigned long long>(bytes),
                  us[kBatches / 2]);
      std::fflush(stdout);
    }
    Cuda(cudaFree(whole), "cudaFree");
    Cuda(cudaFree(part), "cudaFree");
  }

  const int rank_;
  const Options& options_;
  Board& board_;
  int met_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Waits for all; when one fails the others would wait for it for ever.
int Wait(std::vector<pid_t> children) {
  int failed = 0;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    std::erase(children, ended);
    if (status == 0) continue;
    failed = 1;
    for (const pid_t child : children) kill(child, SIGKILL);
  }
  return failed;
}

template <typename Body>
pid_t Fork(const Body& body) {
  const pid_t child = fork();
  if (child < 0) Fail("fork", std::strerror(errno));
  if (child == 0) {
    body();
    std::fflush(stdout);
    std::_Exit(0);
  }
  return child;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks") options.ranks = std::atoi(value.c_str());
    if (name == "--operation") options.reduce_scatter = value == "reduce_scatter";
    if (name == "--from") options.from = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--to") options.to = std::strtoull(value.c_str(), nullptr, 10);
  }
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap", std::strerror(errno));
  auto* board = new (memory) Board{};
  // Not in this process: what has used CUDA cannot fork.
  const int counted = Wait({Fork([&] {
    int devices = 0;
    Cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    board->devices = devices;
  })});
  if (counted != 0) return 1;
  const int most = std::min(kMostRanks, board->devices.load());
  if (options.ranks == 0) options.ranks = most;
  if (options.ranks < 2 || options.ranks > most) {
    Fail("--ranks " + std::to_string(options.ranks),
         ("this machine has " + std::to_string(most) +
          " devices; 2 are needed at least, and one a rank")
             .c_str());
  }
  std::printf("plan,ranks,bytes,us\n");
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank)
    children.push_back(Fork([&] { Rank(rank, options, board).Run(); }));
  return Wait(std::move(children));
}
