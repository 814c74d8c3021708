// What the parts of shim_torture share: numbers that follow from the seed, a digest of all that the
// job computes, and one lane of work: a thread with a communicator and a stream of its own.
#ifndef GORDIAN_TESTS_STRESS_TORTURE_H_
#define GORDIAN_TESTS_STRESS_TORTURE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace torture {

// Ends the process: the driver compares exit codes as well.
#define NEED(condition)                                                    \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(70);                                                      \
    }                                                                      \
  } while (0)

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(Next() % limit); }

 private:
  uint64_t state_;
};
inline uint64_t Derive(uint64_t seed, uint64_t which) {
  return Random(seed ^ (which * 0xD1342543DE82EF95u)).Next();
}

// FNV-1a.
class Digest {
 public:
  void Add(const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3u;
    }
  }
  void Add(uint64_t number) { Add(&number, sizeof number); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

// The number of elements tells the operation's place on its communicator, so that whoever reads
// records afterwards can hold their sequence numbers against it: tests/stress/shim_torture.py.
inline size_t CountOf(uint64_t sequence) { return 16 + sequence % 1000; }
inline constexpr size_t kMostElements = 1016;

struct Options {
  uint64_t seed = 1;
  int ranks = 2;
  int lanes = 2;
  int steps = 24;
  bool tame = false;  // children only end: for runtimes that do not survive a fork amid threads
  bool forks = true;  // false: nor are threads cancelled; for TSan, which bears neither
};

struct Lane {
  int rank = 0;
  int ranks = 1;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  float* in = nullptr;
  float* out = nullptr;
  uint64_t sequence = 0;   // of collectives on the communicator
  uint64_t transfers = 0;  // to the next rank, and from the one before
  Digest digest;
};

// Stream, event and buffers, on the current device.
void Prepare(Lane* lane);
// One step of the plan, which all ranks follow alike. Checks what came out.
void Step(Lane* lane, Random* plan);
// `--leaf`: a process of one rank, started by others. Gives what it computed.
uint64_t Leaf(uint64_t seed);
// Something unkind, drawn from `random`.
void Mischief(const Options& options, Lane* lane, Random* random);

}  // namespace torture

#endif  // GORDIAN_TESTS_STRESS_TORTURE_H_
