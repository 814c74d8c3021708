// Small programs whose outcome (which ranks end, which hang and in which call, whether the data is
// right) is the same question on real GPUs and on the emulator. One process a rank; a judge process
// (judge.cc) watches what they publish in shared memory and touches neither CUDA nor NCCL.
#ifndef GORDIAN_TESTS_GPU_TRUTH_TRUTH_H_
#define GORDIAN_TESTS_GPU_TRUTH_TRUTH_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace truth {

constexpr int kMaxRanks = 8;
constexpr int kMaxIds = 24;
constexpr int kFlags = 8;

enum class State : int {
  kRunning,  // the program's own code
  kHost,     // inside the call that `step` names
  kFlag,     // waits in the program's own code until another rank raises a flag
  kDevice,   // everything is issued; waits for its streams
  kDone,
  kError,
};
enum class Data : int { kUnchecked, kRight, kWrong };

// What one rank publishes.
struct alignas(64) Published {
  std::atomic<uint32_t> moves;  // counts every change
  std::atomic<State> state;
  std::atomic<Data> data;
  std::atomic<bool> begun;  // past Begin()
  char step[112];
};

struct alignas(64) IdSlot {
  char name[24];
  std::atomic<int> ready;
  ncclUniqueId id;
};

struct Shared {
  Published ranks[kMaxRanks];
  IdSlot ids[kMaxIds];
  std::atomic<int> ids_lock;
  std::atomic<int> ids_used;
  std::atomic<int> arrived;
  std::atomic<int> may_leave;  // ranks that are done stay until then: others may use their memory
  std::atomic<int> nccl_version;
  std::atomic<uint32_t> flags[kFlags];
  // A page of its own: ranks register it with CUDA, so that streams can wait for words in it.
  alignas(4096) uint32_t words[1024];
};

// A communicator with buffers for one kind of operation on it. All-reduces may be repeated: their
// input stays.
struct Comm {
  ncclComm_t handle = nullptr;
  std::string name;
  int rank = -1;
  int n = 0;
  int scale = 1;  // tells the data of one communicator from that of another
  float* in = nullptr;
  float* out = nullptr;
  size_t count = 0;  // floats
  bool checked = false;
};

class Rank {
 public:
  Rank(int rank, int n, size_t bytes, Shared* shared);

  const int rank;
  const int n;
  const size_t bytes;
  // The rank that goes the other way round: the last.
  bool Departs() const { return rank == n - 1; }

  // Publishes `step`, runs `call` (which returns cudaError_t, CUresult or ncclResult_t), and ends
  // the process in state kError if that fails.
  template <typename F>
  void Call(const std::string& step, F&& call) {
    Publish(State::kHost, step);
    Check(step, call());
    Publish(State::kRunning, "after " + step);
  }
  void Check(const std::string& step, cudaError_t result);
  void Check(const std::string& step, CUresult result);
  void Check(const std::string& step, ncclResult_t result);
  [[noreturn]] void Fail(const std::string& what);
  // A function that the installed headers or libraries may lack, found by name when it is needed.
  template <typename Function>
  Function* Find(const char* name) {
    void* const found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) Fail(std::string(name) + ": missing");
    return reinterpret_cast<Function*>(found);
  }

  // Device memory of at least one byte, zeroed.
  float* Buffer(size_t floats);
  cudaStream_t Stream(unsigned flags = cudaStreamNonBlocking);
  cudaEvent_t Event();

  std::vector<int> All() const;
  ncclUniqueId Id(const std::string& name, int creator = 0);
  // The same, of an id that `make` fills in at the creator.
  ncclUniqueId MadeId(const std::string& name,
                      const std::function<ncclResult_t(ncclUniqueId*)>& make, int creator = 0);
  // A communicator over `members`; a rank that is none gets one without handle, and operations on
  // that do nothing. Buffers hold bytes * in_factor and bytes * out_factor.
  Comm MakeComm(const std::string& name, std::vector<int> members, int in_factor = 1,
                int out_factor = 1);
  Comm MakeComm(const std::string& name, int in_factor = 1, int out_factor = 1) {
    return MakeComm(name, All(), in_factor, out_factor);
  }
  // Buffers for a communicator that the program made itself.
  void FillBuffers(Comm* comm, int in_factor = 1, int out_factor = 1);
  // Uses it once with an all-reduce of full size, and waits.
  void Warm(Comm& comm);
  // Made and used once.
  Comm Ready(const std::string& name);
  Comm Ready(const std::string& name, std::vector<int> members);

  // Marks the start of the part that may hang: waits for this device and for all ranks.
  void Begin();

  // Operations with a check of their result at the end.
  void AllReduce(Comm& comm, cudaStream_t stream);
  void Send(const Comm& comm, int peer, cudaStream_t stream, size_t count);
  void Recv(const Comm& comm, int peer, cudaStream_t stream, size_t count);
  void GroupStart();
  void GroupEnd();
  void Sync(cudaStream_t stream, const std::string& name);
  void DeviceSync();
  // Some other thing to be checked at the end: floats at `device`, each `expected(i)`.
  void Expect(const float* device, size_t floats, std::function<float(size_t)> expected);

  // Flags between ranks, in the program's own code.
  void Raise(int flag);
  void WaitFor(int flag, const std::string& name);
  // Waits until `condition`, looking every millisecond.
  void WaitUntil(const std::string& name, const std::function<bool()>& condition);
  std::atomic<uint32_t>& FlagWord(int flag) { return shared_->flags[flag]; }
  // Word `index` of the page that all ranks share, as the device sees it, and for the host.
  CUdeviceptr DeviceWord(int index);
  void SetWord(int index, uint32_t value);
  void WaitValue(cudaStream_t stream, int index, uint32_t value);
  void WriteValue(cudaStream_t stream, int index, uint32_t value);  // with its memory barrier

  // Waits for `streams` and checks the data. The last thing that a program does; without it, the
  // data stays unchecked.
  void Finish(std::initializer_list<cudaStream_t> streams);

  void Publish(State state, const std::string& step);
  Published& published() { return shared_->ranks[rank]; }

 private:
  Shared* shared_;
  int comms_ = 0;
  CUdeviceptr words_ = 0;
  struct Expectation {
    const float* device;
    size_t floats;
    std::function<float(size_t)> expected;
  };
  std::vector<Expectation> expectations_;
};

// What member `rank` of a communicator puts in: small numbers, so that sums are exact.
inline float Input(int scale, int rank, size_t i) {
  return static_cast<float>(scale * (rank + 1) * static_cast<int>(1 + i % 5));
}
inline float SumOfInputs(int scale, int n, size_t i) {
  return static_cast<float>(scale * (n * (n + 1) / 2) * static_cast<int>(1 + i % 5));
}

using Body = std::function<void(Rank&)>;
struct Program {
  std::string name;
  int min_ranks;
  Body body;
};
std::vector<Program>& Programs();
struct Registration {
  Registration(std::string name, int min_ranks, Body body) {
    Programs().push_back({std::move(name), min_ranks, std::move(body)});
  }
};

struct JudgeOptions {
  double patience_s = 0;  // 0: 4 s on hardware, 1.5 s of sleep on the emulator
  double limit_s = 45;    // then the outcome is "unclear"
  std::string hold;       // before it ends the ranks, waits until this file exists (10 s at most)
};
// Forks the ranks, judges, ends them, prints one line of JSON. Returns the exit code.
int RunAndJudge(const Program& program, int ranks, size_t bytes, const JudgeOptions& options);

}  // namespace truth

#define TRUTH_PROGRAM(name, min_ranks)                                                \
  static void Program_##name(truth::Rank& r);                                         \
  static const truth::Registration register_##name(#name, min_ranks, Program_##name); \
  static void Program_##name(truth::Rank& r)

#endif  // GORDIAN_TESTS_GPU_TRUTH_TRUTH_H_
