// All-reduce on the CPU against memcpy in the same run.
//
//   bench_runtime [--ranks N] [--max BYTES] [--chunk BYTES] [--processes]
//
// Ratio first: the rate at which the operation moved the bytes that its algorithm must move, over the rate at
// which as many threads as ranks copy memory of the same size at the same time. Bytes that must be moved are
// reads and writes of memory by all ranks together:
//   threads    each rank reads its shard of n inputs and writes it to n outputs: 2 n S
//   processes  into lanes (2 n S), shards reduced (n S read, S written), results gathered (2 n S): (5 n + 1) S
// A memcpy of S bytes by n threads moves 2 n S.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "gordian/runtime.h"

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

struct Shared {
  grtUniqueId id;
  std::atomic<int> arrived[2];
  double memcpy_s[64], reduce_s[64];
};

// All ranks, by turns on two counters.
class Barrier {
 public:
  Barrier(Shared* shared, int ranks) : shared_(shared), ranks_(ranks) {}
  void Wait() {
    std::atomic<int>& counter = shared_->arrived[0];
    const int round = counter.fetch_add(1) / ranks_;
    while (counter.load() < (round + 1) * ranks_) std::this_thread::yield();
  }

 private:
  Shared* shared_;
  int ranks_;
};

// Median seconds of one, of `repeats`; one warm-up.
template <typename Body>
double Median(int repeats, Barrier& barrier, Body body) {
  std::vector<double> all;
  for (int i = 0; i <= repeats; ++i) {
    barrier.Wait();
    const Clock::time_point start = Clock::now();
    body();
    barrier.Wait();
    if (i != 0) all.push_back(Seconds(start));
  }
  std::nth_element(all.begin(), all.begin() + repeats / 2, all.end());
  return all[static_cast<size_t>(repeats) / 2];
}

int RunRank(Shared* shared, int ranks, int rank, size_t most, uint32_t chunk) {
  Barrier barrier(shared, ranks);
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.device = rank;
  config.chunk_bytes = chunk;
  grtComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  if (grtCommInitRankConfig(&comm, ranks, shared->id, rank, &config) != grtSuccess) return 1;
  if (grtStreamCreate(&stream) != grtSuccess) return 1;
  int size = 0;
  for (size_t bytes = 8; bytes <= most; bytes *= 8, ++size) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> in(count, 1), out(count);
    const int repeats = bytes <= (1 << 16) ? 200 : bytes <= (1 << 22) ? 20 : 5;
    const double copy = Median(repeats, barrier, [&] { std::memcpy(out.data(), in.data(), bytes); });
    bool fine = true;
    const double reduce = Median(repeats, barrier, [&] {
      fine = fine && grtAllReduce(in.data(), out.data(), count, grtFloat32, grtSum, comm, stream) == grtSuccess &&
             grtStreamSynchronize(stream, UINT64_MAX) == grtSuccess;
    });
    if (!fine || out[count - 1] != static_cast<float>(ranks)) return 1;
    if (rank == 0) {
      shared->memcpy_s[size] = copy;
      shared->reduce_s[size] = reduce;
    }
    barrier.Wait();
  }
  grtStreamDestroy(stream);
  return grtCommDestroy(comm, UINT64_MAX) == grtSuccess ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2;
  size_t most = size_t{64} << 20;
  bool processes = false;
  uint32_t chunk = 0;  // the library's own choice
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--ranks" && i + 1 < argc) {
      ranks = std::atoi(argv[++i]);
    } else if (arg == "--max" && i + 1 < argc) {
      most = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg == "--chunk" && i + 1 < argc) {
      chunk = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (arg == "--processes") {
      processes = true;
    } else {
      std::fprintf(stderr, "usage: %s [--ranks N] [--max BYTES] [--chunk BYTES] [--processes]\n", argv[0]);
      return 2;
    }
  }
  if (ranks < 1 || ranks > 64) return 2;
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  auto* shared = new (at) Shared();
  if (grtGetUniqueId(&shared->id) != grtSuccess) return 1;
  int failed = 0;
  if (processes) {
    for (int r = 0; r < ranks; ++r) {
      if (fork() == 0) _exit(RunRank(shared, ranks, r, most, chunk));
    }
    for (int r = 0; r < ranks; ++r) {
      int status = 0;
      wait(&status);
      failed |= status;
    }
  } else {
    std::vector<std::thread> threads;
    std::atomic<int> any{0};
    for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { any |= RunRank(shared, ranks, r, most, chunk); });
    for (std::thread& thread : threads) thread.join();
    failed = any;
  }
  if (failed != 0) {
    std::fprintf(stderr, "a rank failed\n");
    return 1;
  }
  std::printf("%d ranks as %s, float sum, out of place\n", ranks, processes ? "processes" : "threads");
  std::printf("%7s %12s %14s %12s %12s %12s\n", "ratio", "bytes", "must move", "us", "GB/s moved", "memcpy GB/s");
  int size = 0;
  for (size_t bytes = 8; bytes <= most; bytes *= 8, ++size) {
    const double n = ranks, s = static_cast<double>(bytes);
    const double moved = processes ? (5 * n + 1) * s : 2 * n * s;
    const double rate = moved / shared->reduce_s[size] / 1e9;
    const double copy = 2 * n * s / shared->memcpy_s[size] / 1e9;
    std::printf("%7.2f %12zu %14.0f %12.1f %12.2f %12.2f\n", rate / copy, bytes, moved, shared->reduce_s[size] * 1e6, rate, copy);
  }
  return 0;
}
