// What the end-to-end jobs share: one process per rank (forked before CUDA is touched), unique ids
// through shared memory, and a clock of each rank's last step that the harness reads from outside.
//
// A job is an ordinary NCCL program: it includes nccl.h, links libnccl and libcudart, and knows
// nothing of gordian. It runs on GPUs as well as under the emulator.
#ifndef GORDIAN_TESTS_E2E_JOBS_JOB_H_
#define GORDIAN_TESTS_E2E_JOBS_JOB_H_

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace job {

struct Options {
  int ranks = 2;
  bool twin = false;   // the innocent program
  int late_rank = -1;  // this rank sleeps late_seconds in user code before the interesting part
  double late_seconds = 0;
  int busy_rank = -1;  // this rank's stream first runs a kernel of busy_seconds
  double busy_seconds = 0;
  bool hidden = false;      // from Begin on, not to be traced by who has no privilege
  int flood = 0;            // records that each rank makes before the interesting part
  bool flood_each = false;  // and again before each of its operations
  size_t count = 1000;      // elements of an operation, of jobs that ask for it
  bool check = false;  // at its end the job looks whether its last all-reduce has the right result
};

class Context {
 public:
  Context(int rank, const Options& options, void* shared);

  const int rank;
  const int nranks;
  const bool twin;
  const size_t count;  // Options::count

  // A communicator over `members` (job ranks, in communicator order); every member calls it with
  // the same name. Null for a rank that is not a member. Blocking init.
  ncclComm_t MakeComm(const std::string& name, const std::vector<int>& members);
  ncclComm_t World() { return MakeComm("world", All()); }
  std::vector<int> All() const;
  // The id behind MakeComm, for jobs that call ncclCommInitRank themselves.
  ncclUniqueId Id(const std::string& name, int creator) {
    return Id(name, creator, ncclGetUniqueId);
  }
  // The same of an id that the creator gets elsewhere.
  ncclUniqueId Id(const std::string& name, int creator,
                  const std::function<ncclResult_t(ncclUniqueId*)>& make);

  cudaStream_t Stream();         // a new non-blocking stream
  float* Buffer(size_t floats);  // device memory, zeroed
  void Step(const char* what);   // progress: noted with its time, for the harness
  // Marks the start of the interesting part: waits for all ranks (through shared memory, not NCCL),
  // then applies --late and --busy.
  void Begin(cudaStream_t stream);
  void BeLateIfAsked();
  // Leaves `--flood` records behind: events recorded on a stream that nothing else uses.
  void FloodIfAsked(bool operation);
  void AllReduce(ncclComm_t comm, cudaStream_t stream, size_t count = 1024);
  // With --check: leaves with 7 where the result of the last AllReduce is not what it must be.
  void CheckLastResult();
  // Uses the communicator once and waits, so that nothing is left to connect.
  void Warm(ncclComm_t comm, cudaStream_t stream);
  void Sync(cudaStream_t stream);
  void BusyKernel(cudaStream_t stream, double seconds);  // runs for so long
  void SleepInUserCode(double seconds);
  void WaitForOthersToReach(const char* what, int count);  // shared-memory gate, no NCCL

 private:
  struct Shared;
  Shared* shared_;
  Options options_;
  struct Last {
    float expected = 0;
    size_t count = 0;
  } last_;
  std::vector<std::pair<ncclComm_t, float>> sums_;  // with --check: of each communicator's inputs
  float* a_ = nullptr;
  float* b_ = nullptr;
  cudaStream_t flood_stream_ = nullptr;
  cudaEvent_t flood_event_ = nullptr;
};

using Body = void (*)(Context&);
struct Registration {
  Registration(const char* name, int min_ranks, Body body);
};

// Of NCCL 2.30 or 2.31, whose nccl.h need not be installed.
template <typename Function>
Function* Newer(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s is not in this NCCL\n", name);
    std::_Exit(7);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace job

#define CUDA_OK(call)                                                                             \
  do {                                                                                            \
    cudaError_t e_ = (call);                                                                      \
    if (e_ != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
      std::_Exit(9);                                                                              \
    }                                                                                             \
  } while (0)

#define NCCL_OK(call)                                                                             \
  do {                                                                                            \
    ncclResult_t r_ = (call);                                                                     \
    if (r_ != ncclSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(r_)); \
      std::_Exit(8);                                                                              \
    }                                                                                             \
  } while (0)

#define JOB(name, min_ranks)                                                    \
  static void Job_##name(job::Context& c);                                      \
  static const job::Registration register_##name(#name, min_ranks, Job_##name); \
  static void Job_##name(job::Context& c)

#endif  // GORDIAN_TESTS_E2E_JOBS_JOB_H_
