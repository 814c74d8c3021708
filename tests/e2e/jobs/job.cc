#include "tests/e2e/jobs/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>

// A kernel that keeps a device busy for a while. Registered the way nvcc's generated code does it,
// so that a plain C++ compiler can build this; the emulator knows the name and takes the time.
extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, void* tid, void* bid, void* block, void* grid, int* warp);
}

namespace job {
namespace {

constexpr int kMaxRanks = 16;
constexpr int kMaxIds = 64;

int64_t Now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

struct IdSlot {
  char name[32];
  std::atomic<int> ready;
  ncclUniqueId id;
};

struct Progress {  // what the harness reads: tests/e2e/run_job.py knows this layout
  std::atomic<int64_t> time_real_ns;
  char what[56];
};
static_assert(sizeof(Progress) == 64);

struct Entry {
  int min_ranks;
  Body body;
};

std::map<std::string, Entry>& Registry() {
  static std::map<std::string, Entry> registry;
  return registry;
}

void BusyKernel(uint64_t) {}

void LaunchBusyKernel(cudaStream_t stream, double seconds) {
  static const struct {
    int magic, version;
    const void* data;
    void* file;
  } image = {0x466243b1, 1, nullptr, nullptr};
  void** handle = __cudaRegisterFatBinary(const_cast<void*>(static_cast<const void*>(&image)));
  char name[] = "gordian_busy_us";
  __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&BusyKernel), name, name, -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(handle);
  uint64_t us = static_cast<uint64_t>(seconds * 1e6);
  void* args[] = {&us};
  CUDA_OK(cudaLaunchKernel(reinterpret_cast<const void*>(&BusyKernel), dim3(1), dim3(32), args, 0,
                           stream));
}

}  // namespace

struct Context::Shared {
  Progress progress[kMaxRanks];
  IdSlot ids[kMaxIds];
  std::atomic<int> ids_lock;
  std::atomic<int> ids_used;
  std::atomic<int> arrived;
};

Registration::Registration(const char* name, int min_ranks, Body body) {
  Registry()[name] = {min_ranks, body};
}

Context::Context(int rank_in, const Options& options, void* shared)
    : rank(rank_in),
      nranks(options.ranks),
      twin(options.twin),
      count(options.count),
      shared_(static_cast<Shared*>(shared)),
      options_(options) {
  CUDA_OK(cudaSetDevice(rank));
  a_ = Buffer(1 << 20);
  b_ = Buffer(1 << 20);
  if (!options.check) return;
  const std::vector<float> own(1 << 20, static_cast<float>(1 << rank));
  CUDA_OK(cudaMemcpy(a_, own.data(), own.size() * sizeof(float), cudaMemcpyHostToDevice));
}

std::vector<int> Context::All() const {
  std::vector<int> all;
  for (int r = 0; r < nranks; ++r) all.push_back(r);
  return all;
}

ncclUniqueId Context::Id(const std::string& name, int creator,
                         const std::function<ncclResult_t(ncclUniqueId*)>& make) {
  // Slots are found by name; whoever comes first claims one.
  int expected = 0;
  while (!shared_->ids_lock.compare_exchange_weak(expected, 1)) {
    expected = 0;
    usleep(50);
  }
  IdSlot* slot = nullptr;
  for (int i = 0; i < shared_->ids_used; ++i) {
    if (name == shared_->ids[i].name) slot = &shared_->ids[i];
  }
  if (slot == nullptr) {
    slot = &shared_->ids[shared_->ids_used++];
    std::snprintf(slot->name, sizeof slot->name, "%s", name.c_str());
  }
  shared_->ids_lock = 0;
  if (rank == creator) {
    NCCL_OK(make(&slot->id));
    slot->ready = 1;
  }
  while (slot->ready == 0) usleep(200);
  return slot->id;
}

ncclComm_t Context::MakeComm(const std::string& name, const std::vector<int>& members) {
  int mine = -1;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == rank) mine = static_cast<int>(i);
  }
  if (mine < 0) return nullptr;
  ncclUniqueId id = Id(name, members[0]);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // What a test wants in every name.
  const char* const more = std::getenv("JOB_NAME_SUFFIX");
  const std::string whole = name + (more == nullptr ? "" : more);
  config.commName = whole.c_str();
  ncclComm_t comm = nullptr;
  Step(("init " + name).c_str());
  NCCL_OK(ncclCommInitRankConfig(&comm, static_cast<int>(members.size()), id, mine, &config));
  Step(("has " + name).c_str());
  float sum = 0;
  for (const int member : members) sum += static_cast<float>(1 << member);
  sums_.emplace_back(comm, sum);
  return comm;
}

cudaStream_t Context::Stream() {
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

float* Context::Buffer(size_t floats) {
  void* p = nullptr;
  CUDA_OK(cudaMalloc(&p, floats * sizeof(float)));
  CUDA_OK(cudaMemset(p, 0, floats * sizeof(float)));
  return static_cast<float*>(p);
}

void Context::Step(const char* what) {
  Progress& p = shared_->progress[rank];
  std::snprintf(p.what, sizeof p.what, "%s", what);
  p.time_real_ns = Now(CLOCK_REALTIME);
}

void Context::Begin(cudaStream_t stream) {
  CUDA_OK(cudaDeviceSynchronize());
  WaitForOthersToReach("begin", nranks);
  if (options_.hidden) prctl(PR_SET_DUMPABLE, 0);
  if (options_.busy_rank == rank) LaunchBusyKernel(stream, options_.busy_seconds);
  BeLateIfAsked();
  FloodIfAsked(false);
  Step("begin");
}

void Context::FloodIfAsked(bool operation) {
  if (options_.flood == 0 || (operation && !options_.flood_each)) return;
  if (flood_stream_ == nullptr) {
    flood_stream_ = Stream();
    CUDA_OK(cudaEventCreateWithFlags(&flood_event_, cudaEventDisableTiming));
  }
  for (int i = 0; i < options_.flood; ++i) CUDA_OK(cudaEventRecord(flood_event_, flood_stream_));
}

void Context::BeLateIfAsked() {
  if (options_.late_rank == rank) SleepInUserCode(options_.late_seconds);
}

void Context::WaitForOthersToReach(const char* what, int count) {
  Step(what);
  ++shared_->arrived;
  while (shared_->arrived < count) usleep(200);
}

void Context::AllReduce(ncclComm_t comm, cudaStream_t stream, size_t count) {
  FloodIfAsked(true);
  Step("all-reduce");
  for (const auto& [of, sum] : sums_) {
    if (of == comm) last_ = {sum, count};
  }
  NCCL_OK(ncclAllReduce(a_, b_, count, ncclFloat, ncclSum, comm, stream));
  Step("all-reduce issued");
}

void Context::CheckLastResult() {
  if (!options_.check || last_.count == 0) return;
  std::vector<float> result(last_.count);
  CUDA_OK(cudaMemcpy(result.data(), b_, result.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float value : result) {
    if (value == last_.expected) continue;
    std::fprintf(stderr, "rank %d: %f where %f must be\n", rank, value, last_.expected);
    std::_Exit(7);
  }
}

void Context::Warm(ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return;
  AllReduce(comm, stream);
  Sync(stream);
}

void Context::Sync(cudaStream_t stream) {
  Step("synchronise");
  CUDA_OK(cudaStreamSynchronize(stream));
  Step("synchronised");
}

void Context::BusyKernel(cudaStream_t stream, double seconds) { LaunchBusyKernel(stream, seconds); }

void Context::SleepInUserCode(double seconds) {
  timespec t{static_cast<time_t>(seconds),
             static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
  while (nanosleep(&t, &t) != 0) {
  }
}

}  // namespace job

namespace {

int Usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s JOB [--twin] [--ranks N] [--rank R] [--elastic] [--late RANK:SECONDS] "
               "[--busy RANK:SECONDS] [--hidden] [--flood[-each] N] [--check]\njobs:",
               program);
  for (const auto& [name, entry] : job::Registry()) {
    std::fprintf(stderr, " %s", name.c_str());
  }
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return Usage(argv[0]);
  auto entry = job::Registry().find(argv[1]);
  if (entry == job::Registry().end()) return Usage(argv[0]);
  job::Options options;
  options.ranks = entry->second.min_ranks;
  int only =
      -1;  // with --rank: the others are started elsewhere, and meet in the file JOB_PROGRESS
  bool elastic = false;  // this process is the rank that its environment says
  for (int i = 2; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--twin") {
      options.twin = true;
    } else if (arg == "--ranks" && i + 1 < argc) {
      options.ranks = std::atoi(argv[++i]);
    } else if (arg == "--rank" && i + 1 < argc) {
      only = std::atoi(argv[++i]);
    } else if (arg == "--elastic" && std::getenv("RANK") != nullptr &&
               std::getenv("WORLD_SIZE") != nullptr) {
      elastic = true;
      only = std::atoi(std::getenv("RANK"));
      options.ranks = std::atoi(std::getenv("WORLD_SIZE"));
    } else if (arg == "--late" && i + 1 < argc) {
      std::sscanf(argv[++i], "%d:%lf", &options.late_rank, &options.late_seconds);
    } else if (arg == "--hidden") {
      options.hidden = true;
    } else if (arg == "--busy" && i + 1 < argc) {
      std::sscanf(argv[++i], "%d:%lf", &options.busy_rank, &options.busy_seconds);
    } else if ((arg == "--flood" || arg == "--flood-each") && i + 1 < argc) {
      options.flood = std::atoi(argv[++i]);
      options.flood_each = arg == "--flood-each";
    } else if (arg == "--count" && i + 1 < argc) {
      options.count = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg == "--check") {
      options.check = true;
    } else {
      return Usage(argv[0]);
    }
  }
  if (options.ranks < entry->second.min_ranks || options.ranks > 16) return Usage(argv[0]);

  // JOB_PROGRESS names a file that the harness watches; anonymous memory without it.
  size_t bytes = 1 << 16;
  int fd = -1;
  if (const char* file = std::getenv("JOB_PROGRESS")) {
    fd = open(file, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      std::perror(file);
      return 2;
    }
  }
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  if (elastic) {
    job::Context context(only, options, shared);
    entry->second.body(context);
    context.CheckLastResult();
    context.Step("end");
    std::fflush(nullptr);
    std::_Exit(0);
  }
  std::vector<pid_t> ranks;
  for (int r = 0; r < options.ranks; ++r) {
    if (only >= 0 && r != only) continue;
    pid_t pid = fork();
    if (pid == 0) {
      job::Context context(r, options, shared);
      entry->second.body(context);
      context.CheckLastResult();
      context.Step("end");
      std::fflush(nullptr);
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  int result = 0;
  for (pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result == 0) result = code;
  }
  return result;
}
