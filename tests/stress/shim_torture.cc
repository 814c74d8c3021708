// A job that is as unkind to a preloaded library as programs can be, and computes something all the
// while. What it prints follows from the seed alone: with the shim in front, whatever happens to
// the shim's files, it must print the same. tests/stress/shim_torture.py runs it both ways.
//
//   shim_torture --seed N [--ranks N] [--lanes N] [--steps N] [--tame] [--no-forks]
//   shim_torture --leaf SEED DESCRIPTOR     what it starts of itself
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "tests/stress/torture.h"

namespace torture {
namespace {

constexpr int kMostRanks = 4;
constexpr int kMostLanes = 4;
constexpr suseconds_t kTimerUs = 3000;

struct Shared {
  std::atomic<int> ready;
  ncclUniqueId ids[kMostLanes];
  std::atomic<uint64_t> digests[kMostRanks];
};

std::atomic<uint64_t> g_signals = 0;

void CountSignal(int) {
  const int saved_errno = errno;
  g_signals.fetch_add(1, std::memory_order_relaxed);
  errno = saved_errno;
}

void TakeSignals() {
  struct sigaction action = {};
  action.sa_handler = CountSignal;
  action.sa_flags = SA_RESTART;
  NEED(sigaction(SIGALRM, &action, nullptr) == 0);
  NEED(sigaction(SIGUSR1, &action, nullptr) == 0);
  const itimerval every = {{0, kTimerUs}, {0, kTimerUs}};
  NEED(setitimer(ITIMER_REAL, &every, nullptr) == 0);
}

void Work(const Options& options, int device, int index, Lane* lane) {
  NEED(cudaSetDevice(device) == cudaSuccess);
  Random plan(Derive(options.seed, static_cast<uint64_t>(index)));
  Random unkind(
      Derive(options.seed, static_cast<uint64_t>(1000 + lane->rank * kMostLanes + index)));
  for (int i = 0; i < options.steps; ++i) {
    Step(lane, &plan);
    if (unkind.Below(3) == 0) Mischief(options, lane, &unkind);
  }
}

void Rank(const Options& options, int rank, Shared* shared) {
  NEED(cudaSetDevice(rank) == cudaSuccess);
  if (rank == 0) {
    for (int i = 0; i < options.lanes; ++i) NEED(ncclGetUniqueId(&shared->ids[i]) == ncclSuccess);
    shared->ready = 1;
  }
  while (shared->ready == 0) usleep(200);
  TakeSignals();
  Lane lanes[kMostLanes];
  for (int i = 0; i < options.lanes; ++i) {
    lanes[i].rank = rank;
    lanes[i].ranks = options.ranks;
    NEED(ncclCommInitRank(&lanes[i].comm, options.ranks, shared->ids[i], rank) == ncclSuccess);
    Prepare(&lanes[i]);
    // Connects, which waits for the others on the host, while nothing else goes on.
    Random first(1);
    while (lanes[i].sequence == 0 || (options.ranks > 1 && lanes[i].transfers == 0))
      Step(&lanes[i], &first);
  }
  std::vector<std::thread> threads;
  for (int i = 1; i < options.lanes; ++i) threads.emplace_back(Work, options, rank, i, &lanes[i]);
  Work(options, rank, 0, &lanes[0]);
  for (std::thread& thread : threads) thread.join();
  Digest all;
  for (int i = 0; i < options.lanes; ++i) {
    NEED(ncclCommDestroy(lanes[i].comm) == ncclSuccess);
    all.Add(lanes[i].digest.value());
  }
  shared->digests[rank] = all.value();
}

int Launch(const Options& options) {
  // Known to the shim before the ranks are forked, and CUDA untouched: as launchers do.
  int version = 0;
  NEED(ncclGetVersion(&version) == ncclSuccess);
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  NEED(memory != MAP_FAILED);
  auto* shared = new (memory) Shared;
  pid_t children[kMostRanks];
  for (int rank = 0; rank < options.ranks; ++rank) {
    children[rank] = fork();
    NEED(children[rank] >= 0);
    if (children[rank] == 0) {
      Rank(options, rank, shared);
      if (rank % 2 == 0) std::exit(0);
      std::_Exit(0);
    }
  }
  int statuses[kMostRanks] = {};
  int code = 0;
  for (int left = options.ranks; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    NEED(ended > 0);
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (children[rank] == ended) statuses[rank] = status;
      // The others would wait for ever for one that has failed.
      if (children[rank] > 0 && children[rank] != ended && status != 0)
        kill(children[rank], SIGKILL);
      if (children[rank] == ended) children[rank] = 0;
    }
    if (status != 0) code = 1;
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    std::printf("rank %d: status %d, %016llx\n", rank, statuses[rank],
                static_cast<unsigned long long>(shared->digests[rank].load()));
  }
  return code;
}

int AnswerAsLeaf(uint64_t seed, int descriptor) {
  const uint64_t result = Leaf(seed);
  NEED(write(descriptor, &result, sizeof result) == sizeof result);
  switch (seed % 3) {  // ways to end
    case 0:
      return 0;
    case 1:
      _exit(0);
    default:
      raise(SIGKILL);
      return 1;
  }
}

}  // namespace
}  // namespace torture

int main(int argc, char** argv) {
  torture::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (word == "--leaf" && i + 2 < argc) {
      return torture::AnswerAsLeaf(std::strtoull(argv[i + 1], nullptr, 10), std::atoi(argv[i + 2]));
    } else if (word == "--seed") {
      options.seed = number();
    } else if (word == "--ranks") {
      options.ranks = static_cast<int>(number());
    } else if (word == "--lanes") {
      options.lanes = static_cast<int>(number());
    } else if (word == "--steps") {
      options.steps = static_cast<int>(number());
    } else if (word == "--tame") {
      options.tame = true;
    } else if (word == "--no-forks") {
      options.forks = false;
    } else {
      std::fprintf(stderr,
                   "usage: %s --seed N [--ranks N] [--lanes N] [--steps N] [--tame] [--no-forks]\n",
                   argv[0]);
      return 2;
    }
  }
  if (options.ranks < 1 || options.ranks > torture::kMostRanks || options.lanes < 1 ||
      options.lanes > torture::kMostLanes || options.steps < 1) {
    std::fprintf(stderr, "%s: 1 to %d ranks, 1 to %d lanes, a step or more\n", argv[0],
                 torture::kMostRanks, torture::kMostLanes);
    return 2;
  }
  return torture::Launch(options);
}
