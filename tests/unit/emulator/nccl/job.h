// Runs emulated jobs: forks one process a rank, watches them, and says how it ended. "Hung" is
// decided from outside: every thread of every process that is left asleep, with unchanged context
// switches.
#ifndef GORDIAN_TESTS_UNIT_EMULATOR_NCCL_JOB_H_
#define GORDIAN_TESTS_UNIT_EMULATOR_NCCL_JOB_H_

#include <cuda.h>
#include <nccl.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gordian::emu::test {

inline constexpr int kMaxRanks = 8;
inline constexpr int kMaxIds = 8;

// Inside a rank: ends the process with a message when something is not as it has to be.
#define REQUIRE(condition) \
  ((condition) ? void(0) : ::gordian::emu::test::Die(__FILE__, __LINE__, #condition))
#define REQUIRE_NCCL(call) ::gordian::emu::test::RequireNccl((call), __FILE__, __LINE__, #call)
#define REQUIRE_CUDA(call) ::gordian::emu::test::RequireCuda((call), __FILE__, __LINE__, #call)

[[noreturn]] void Die(const char* file, int line, const char* what);
void RequireNccl(ncclResult_t result, const char* file, int line, const char* what);
void RequireCuda(CUresult result, const char* file, int line, const char* what);

struct Shared {
  std::atomic<uint32_t> barrier_arrived;
  std::atomic<uint32_t> barrier_round;
  ncclUniqueId ids[kMaxIds];
  std::atomic<uint32_t> marks[kMaxRanks];
  std::atomic<int> pids[kMaxRanks];
};

// What a rank's body works with.
class Rank {
 public:
  Rank(int rank, int size, Shared* shared) : rank_(rank), size_(size), shared_(shared) {}
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Makes the device current; the rank's own number by default. Any thread.
  void UseDevice(int device) const;
  // Not part of the emulated world: only for the test's own order.
  void Barrier();
  // The same for all ranks; made by rank 0 before the bodies start.
  const ncclUniqueId& Id(int index) const { return shared_->ids[index]; }
  ncclComm_t Init(int id_index, int nranks, int rank) const;
  ncclComm_t Init(int id_index = 0) const { return Init(id_index, size_, rank_); }
  // Returns when that rank's process has ended (a zombie counts).
  void WaitForExitOf(int other) const;
  // Shows the parent how far this rank got.
  void Mark(uint32_t value) { shared_->marks[rank_].store(value); }
  uint32_t MarkOf(int other) const { return shared_->marks[other].load(); }

 private:
  int rank_;
  int size_;
  Shared* shared_;
};

using Body = std::function<void(Rank&)>;
// Name and value; "%r" stands for the rank.
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Outcome {
  bool hung = false;            // else all ended by themselves
  std::vector<int> statuses;    // waitpid's, -1 for a rank that had to be killed
  std::vector<uint32_t> marks;  // the last Mark of each rank
  std::vector<pid_t> pids;
  std::vector<std::string> left;  // rendezvous files that were there at the end, before the killing
  bool Succeeded() const;
};

// A rank's own device is current when its body starts, unless CUDA_VISIBLE_DEVICES is set.
// Runs and judges; kills what is left. `during`, if given, is called once with the pids when all
// ranks have set mark `during_mark`.
Outcome RunJob(int size, const Body& body, const Environment& environment = {});
Outcome RunJob(int size, const Body& body, const Environment& environment, uint32_t during_mark,
               const std::function<void(const std::vector<pid_t>&)>& during);

// Rendezvous files in /dev/shm that one of these processes made: other jobs may run meanwhile.
std::vector<std::string> RendezvousFiles(const std::vector<pid_t>& creators);

// Device memory of the calling thread's device, with typed copies.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(pointer_);
  }
  CUdeviceptr pointer() const { return pointer_; }
  template <typename T>
  void Write(const std::vector<T>& values, size_t at = 0) {
    REQUIRE_CUDA(cuMemcpyHtoD(pointer_ + at * sizeof(T), values.data(), values.size() * sizeof(T)));
  }
  template <typename T>
  std::vector<T> Read(size_t count, size_t at = 0) const {
    std::vector<T> values(count);
    REQUIRE_CUDA(cuMemcpyDtoH(values.data(), pointer_ + at * sizeof(T), count * sizeof(T)));
    return values;
  }

 private:
  CUdeviceptr pointer_ = 0;
};

cudaStream_t MakeStream();
void Synchronize(cudaStream_t stream);

}  // namespace gordian::emu::test

#endif  // GORDIAN_TESTS_UNIT_EMULATOR_NCCL_JOB_H_
