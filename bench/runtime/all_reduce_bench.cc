// All-reduce on the CPU against memcpy in the same run, turn by turn.
//
//   bench_runtime [--ranks N] [--min BYTES] [--max BYTES] [--chunk BYTES] [--processes]
//
// Ratio first: the rate at which the operation moved the bytes that its algorithm must move, over
// the rate at which as many threads as ranks copy memory of the same size at the same time. Bytes
// that must be moved are reads and writes of memory by all ranks together, of S bytes each:
//   threads    each rank reads its shard of n inputs and writes it to n outputs: 2 n S
//   processes  the others' shards into lanes (2 (n-1) S), shards reduced (n S read, S written) and
//   put where the
//              others get them (2 S), the others' shards gathered (2 (n-1) S): (5 n - 1) S
// A memcpy of S bytes by n threads moves 2 n S, within each thread's own cache as long as it fits.
// What ranks of different processes exchange does not: it is written where another core has read
// last, and read where another one wrote. So with --processes that is measured too, as two copies
// with a barrier in between, turn by turn with the rest: S bytes into memory that the others have
// read, and 2 (n-1) / n S bytes of what they wrote; no library that cannot read the caller's
// buffers in place can do with less. "crossing" is its time over a call's.
// Then the time of a call over that of the copy, whatever was moved; and the same by processor
// time, of all ranks together, which other work on the machine disturbs less.
//
// Each rank is bound to a processor of its own if there are enough, as launchers do: beside other
// work a scheduler may leave two ranks on one processor, where they take turns.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
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

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

struct Shared {
  grtUniqueId id;
  std::atomic<int> arrived;
  double memcpy_s[64], reduce_s[64], crossing_s[64];  // of a call; the median
  std::atomic<int64_t> memcpy_ns[64], reduce_ns[64];  // of processors, all ranks and calls
  int calls[64];
};

// 8 bytes, 64 bytes, ... and the largest.
std::vector<size_t> Sizes(size_t least, size_t most) {
  std::vector<size_t> sizes;
  for (size_t bytes = 8; bytes < most; bytes *= 8) {
    if (bytes >= least) sizes.push_back(bytes);
  }
  sizes.push_back(most);
  return sizes;
}

// Of this process.
int64_t ProcessorNs() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{1'000'000'000} * used.tv_sec + used.tv_nsec;
}

// All ranks.
class Barrier {
 public:
  Barrier(Shared* shared, int ranks) : shared_(shared), ranks_(ranks) {}
  void Wait() {
    const int round = shared_->arrived.fetch_add(1) / ranks_;
    while (shared_->arrived.load() < (round + 1) * ranks_) std::this_thread::yield();
  }

 private:
  Shared* shared_;
  int ranks_;
};

// Until all ranks are through with it.
struct Times {
  std::vector<double> seconds;
  int64_t processor_ns = 0;

  template <typename Body>
  void Add(Barrier& barrier, bool counts, Body body) {
    barrier.Wait();
    const int64_t before_ns = ProcessorNs();
    const Clock::time_point start = Clock::now();
    body();
    barrier.Wait();
    if (!counts) return;
    seconds.push_back(Seconds(start));
    processor_ns += ProcessorNs() - before_ns;
  }
};

double Median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
  return all[all.size() / 2];
}

// The calling thread, and those it will make.
void BindTo(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  int cpu = -1;
  for (int i = 0; i <= rank; ++i) {
    do {
      ++cpu;
    } while (!CPU_ISSET(cpu, &allowed));
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(cpu, &own);
  if (sched_setaffinity(0, sizeof own, &own) != 0) std::perror("binding a rank");
}

// `meeting`: memory of all ranks, `most` bytes each; null: ranks read each other's in place.
int RunRank(Shared* shared, char* meeting, size_t most, int ranks, int rank,
            const std::vector<size_t>& sizes, uint32_t chunk, bool processes) {
  BindTo(rank, ranks);
  Barrier barrier(shared, ranks);
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.device = rank;
  config.chunk_bytes = chunk;
  grtComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  if (grtCommInitRankConfig(&comm, ranks, shared->id, rank, &config) != grtSuccess) return 1;
  if (grtStreamCreate(&stream) != grtSuccess) return 1;
  for (size_t size = 0; size < sizes.size(); ++size) {
    const size_t bytes = sizes[size];
    const size_t count = bytes / sizeof(float);
    std::vector<float> in(count, 1), out(count), copy(count);
    const int repeats = bytes <= (1 << 16) ? 400 : bytes <= (1 << 22) ? 60 : 12;
    bool fine = true;
    Times copies, reductions, crossings;
    const size_t read_of_each = 2 * bytes / static_cast<size_t>(ranks);
    for (int i = -1; i < repeats; ++i) {  // -1: to warm up
      copies.Add(barrier, i >= 0, [&] { std::memcpy(copy.data(), in.data(), bytes); });
      if (meeting != nullptr) {
        crossings.Add(barrier, i >= 0, [&] {
          std::memcpy(meeting + most * static_cast<size_t>(rank), in.data(), bytes);
          barrier.Wait();
          for (int r = 0; r < ranks; ++r) {
            if (r != rank) {
              std::memcpy(copy.data(), meeting + most * static_cast<size_t>(r),
                          std::min(bytes, read_of_each));
            }
          }
        });
      }
      reductions.Add(barrier, i >= 0, [&] {
        fine = fine &&
               grtAllReduce(in.data(), out.data(), count, grtFloat32, grtSum, comm, stream) ==
                   grtSuccess &&
               grtStreamSynchronize(stream, UINT64_MAX) == grtSuccess;
      });
    }
    if (!fine || out[count - 1] != static_cast<float>(ranks)) return 1;
    if (rank == 0) {
      shared->memcpy_s[size] = Median(copies.seconds);
      shared->reduce_s[size] = Median(reductions.seconds);
      shared->crossing_s[size] = meeting != nullptr ? Median(crossings.seconds) : 0;
      shared->calls[size] = repeats;
    }
    if (rank == 0 || processes) {
      shared->memcpy_ns[size] += copies.processor_ns;
      shared->reduce_ns[size] += reductions.processor_ns;
    }
    barrier.Wait();
  }
  grtStreamDestroy(stream);
  return grtCommDestroy(comm, UINT64_MAX) == grtSuccess ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2;
  size_t least = 8, most = size_t{64} << 20;
  bool processes = false;
  uint32_t chunk = 0;  // the library's own choice
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--ranks" && i + 1 < argc) {
      ranks = std::atoi(argv[++i]);
    } else if (arg == "--min" && i + 1 < argc) {
      least = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg == "--max" && i + 1 < argc) {
      most = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg == "--chunk" && i + 1 < argc) {
      chunk = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (arg == "--processes") {
      processes = true;
    } else {
      std::fprintf(
          stderr,
          "usage: %s [--ranks N] [--min BYTES] [--max BYTES] [--chunk BYTES] [--processes]\n",
          argv[0]);
      return 2;
    }
  }
  if (ranks < 1 || ranks > 64 || most < 8) return 2;
  const std::vector<size_t> sizes = Sizes(least, most);
  void* at =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  auto* shared = new (at) Shared();
  char* meeting = nullptr;
  if (processes && ranks > 1) {
    void* lanes = mmap(nullptr, most * static_cast<size_t>(ranks), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lanes == MAP_FAILED) return 1;
    meeting = static_cast<char*>(lanes);
  }
  if (grtGetUniqueId(&shared->id) != grtSuccess) return 1;
  int failed = 0;
  if (processes) {
    for (int r = 0; r < ranks; ++r) {
      if (fork() == 0) _exit(RunRank(shared, meeting, most, ranks, r, sizes, chunk, processes));
    }
    for (int r = 0; r < ranks; ++r) {
      int status = 0;
      wait(&status);
      failed |= status;
    }
  } else {
    std::vector<std::thread> threads;
    std::atomic<int> any{0};
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back(
          [&, r] { any |= RunRank(shared, meeting, most, ranks, r, sizes, chunk, processes); });
    }
    for (std::thread& thread : threads) thread.join();
    failed = any;
  }
  if (failed != 0) {
    std::fprintf(stderr, "a rank failed\n");
    return 1;
  }
  std::printf("%d ranks as %s, float sum, out of place\n", ranks,
              processes ? "processes" : "threads");
  std::printf("%7s %9s %12s %14s %12s %12s %12s %9s %14s %13s\n", "ratio", "crossing", "bytes",
              "must move", "us", "GB/s moved", "memcpy GB/s", "x memcpy", "processor us",
              "x memcpy's");
  for (size_t size = 0; size < sizes.size(); ++size) {
    const double n = ranks, s = static_cast<double>(sizes[size]);
    const double moved = processes ? (5 * n - 1) * s : 2 * n * s;
    const double rate = moved / shared->reduce_s[size] / 1e9;
    const double copy = 2 * n * s / shared->memcpy_s[size] / 1e9;
    const auto reduce_ns = static_cast<double>(shared->reduce_ns[size].load());
    char crossing[16] = "-";
    if (meeting != nullptr) {
      std::snprintf(crossing, sizeof crossing, "%.2f",
                    shared->crossing_s[size] / shared->reduce_s[size]);
    }
    std::printf("%7.2f %9s %12zu %14.0f %12.1f %12.2f %12.2f %9.2f %14.1f %13.2f\n", rate / copy,
                crossing, sizes[size], moved, shared->reduce_s[size] * 1e6, rate, copy,
                shared->reduce_s[size] / shared->memcpy_s[size],
                reduce_ns / 1e3 / shared->calls[size],
                reduce_ns / static_cast<double>(shared->memcpy_ns[size].load()));
  }
  return 0;
}
