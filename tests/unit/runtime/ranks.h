// What the runtime's tests share: ranks as threads of this process, and a serial reference that
// shares no code with the runtime.
#ifndef GORDIAN_TESTS_UNIT_RUNTIME_RANKS_H_
#define GORDIAN_TESTS_UNIT_RUNTIME_RANKS_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gordian/runtime.h"

namespace gordian::runtime::testing {

// Long enough for any machine; what is waited for comes in milliseconds.
inline constexpr uint64_t kPatienceNs = 60'000'000'000;

// Runs `body(rank)` on a thread for each rank, and joins them.
void OnRanks(int ranks, const std::function<void(int)>& body);

struct Rank {
  grtComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

// A communicator over `ranks` threads-to-be: each rank on a device and a stream of its own.
class World {
 public:
  explicit World(int ranks, const grtConfig_t* config = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& operator[](int r) { return ranks_[r]; }

 private:
  std::vector<Rank> ranks_;
};

using Bytes = std::vector<unsigned char>;

size_t ElementSize(grtDataType_t type);
// Elements whose sums and products stay exact for small floats as well, most of the time; some are
// negative. Never NaN.
Bytes RandomElements(grtDataType_t type, size_t count, std::mt19937& random);

struct Case {
  grtKind_t kind = grtKindAllReduce;
  grtDataType_t type = grtFloat32;
  grtRedOp_t op = grtSum;
  size_t count = 0;
  int root = 0;
  bool in_place = false;
};
std::string Name(const Case& c, int ranks);

// Of each rank: what its output must be, given all inputs (of InputElements each).
size_t InputElements(const Case& c, int ranks, int rank);
size_t OutputElements(const Case& c, int ranks, int rank);
std::vector<Bytes> Expected(const Case& c, const std::vector<Bytes>& inputs,
                            const std::vector<Bytes>& scalars);

// Runs the case on a world, each rank on its thread, and compares bit by bit. Reports failures to
// GoogleTest; false if there were any.
bool RunCase(World& world, const Case& c, uint32_t seed);

}  // namespace gordian::runtime::testing

#endif  // GORDIAN_TESTS_UNIT_RUNTIME_RANKS_H_
