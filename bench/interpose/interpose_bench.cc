// What the shim adds to a call. One process makes each call through the shim and through the real
// function's pointer, in alternating batches, while a reader empties the ring as the collector
// does. Prints the ratio first, then the nanoseconds added. Exits with 1 only when something did
// not work.
//
// GPU markers are off: they cost two event records of the driver, whatever the shim does.
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bench/interpose/profiled_calls.h"
#include "interpose/entry/nccl_newer.h"
#include "proto/ring/layout.h"

// Of NCCL 2.29 and later.
extern "C" {
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, GordianNcclWaitSignalDesc* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);
}

namespace ring = gordian::ring;

namespace {

constexpr int kBatches = 400;
constexpr int kCallsPerBatch = 1000;
constexpr int kSingles = 200000;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "interpose_bench: %s\n", what);
  std::exit(1);
}

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

double Quantile(std::vector<double> values, double quantile) {
  const auto at = static_cast<size_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// Keeps the ring from filling, as the collector does.
class Reader {
 public:
  explicit Reader(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR);
    void* base = mmap(nullptr, ring::kMaxFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED) Fail("cannot map the ring");
    base_ = static_cast<char*>(base);
    thread_ = std::thread([this] {
      while (!stop_) {
        Drain();
        usleep(500);
      }
    });
  }
  ~Reader() {
    stop_ = true;
    thread_.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  const ring::Header& header() const { return *reinterpret_cast<ring::Header*>(base_); }

 private:
  // Copies every record, so that the writer meets lines that another core has read.
  void Drain() {
    auto* slots = reinterpret_cast<ring::ThreadSlot*>(base_ + header().threads_offset);
    for (uint32_t i = 0; i < header().threads_used; ++i) {
      ring::ThreadSlot& slot = slots[i];
      const auto* records = reinterpret_cast<const ring::Record*>(base_ + slot.ring_offset);
      const uint64_t head = __atomic_load_n(&slot.ring_head, __ATOMIC_ACQUIRE);
      for (uint64_t at = slot.ring_tail; slot.ring_offset != 0 && at < head; ++at) {
        std::memcpy(&copy_, &records[at & (slot.ring_slots - 1)], sizeof(copy_));
        last_order_ = std::max(last_order_, copy_.order);
      }
      __atomic_store_n(&slot.ring_tail, head, __ATOMIC_RELEASE);
    }
  }

  ring::Record copy_ = {};
  uint64_t last_order_ = 0;
  char* base_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// By libc's own dlsym: the shim's would give its wrapper.
template <typename Function>
Function* Real(const char* library, const char* name) {
  using Lookup = void*(void*, const char*);
  static auto* const look_up =
      reinterpret_cast<Lookup*>(dlsym(dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY), "dlsym"));
  void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  void* found = handle != nullptr && look_up != nullptr ? look_up(handle, name) : nullptr;
  if (found == nullptr) Fail(name);
  return reinterpret_cast<Function*>(found);
}

template <typename Hooked, typename Direct>
void Compare(const char* name, double goal_ns, const Hooked& hooked, const Direct& direct) {
  const auto batch = [](const auto& call) {
    const uint64_t begin = NowNs();
    for (int i = 0; i < kCallsPerBatch; ++i) call();
    return static_cast<double>(NowNs() - begin) / kCallsPerBatch;
  };
  const auto single = [](const auto& call) {
    const uint64_t begin = NowNs();
    call();
    return static_cast<double>(NowNs() - begin);
  };
  for (int i = 0; i < 20; ++i) batch(hooked), batch(direct);
  std::vector<double> with, without, added;
  for (int i = 0; i < kBatches; ++i) {
    with.push_back(batch(hooked));
    without.push_back(batch(direct));
    added.push_back(with.back() - without.back());
    usleep(200);  // the reader's turn
  }
  std::vector<double> singles;
  for (int i = 0; i < kSingles; ++i) {
    singles.push_back(single(hooked));
    if (i % 1000 == 0) usleep(200);
  }
  std::printf(
      "%6.1fx  %+7.1f ns median (goal %3.0f)   %7.1f with, %6.1f without, one call p99.9 %.0f ns   "
      "%s\n",
      Quantile(with, 0.5) / Quantile(without, 0.5), Quantile(added, 0.5), goal_ns,
      Quantile(with, 0.5), Quantile(without, 0.5), Quantile(singles, 0.999), name);
}

// Walks memory as a job's own code does between two calls: what the shim had in the first-level
// caches is gone.
class OtherWork {
 public:
  void operator()() {
    unsigned sum = 0;
    for (size_t i = 0; i < kBytes; i += kLine) sum += memory_[i];
    sum_ = sum;
  }

 private:
  static constexpr size_t kBytes = 256 << 10, kLine = 64;
  std::vector<unsigned char> memory_ = std::vector<unsigned char>(kBytes, 1);
  volatile unsigned sum_ = 0;
};

void Measure(const std::string& folder) {
  float buffer[16];
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  if (ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess) Fail("init");
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) Fail("stream");
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) path = entry.path();
  if (path.empty()) Fail("the shim made no ring");
  const Reader reader(path);
  const uint64_t records_before = reader.header().order;

  auto* all_reduce = Real<decltype(ncclAllReduce)>("libnccl.so.2", "ncclAllReduce");
  auto* group_start = Real<decltype(ncclGroupStart)>("libnccl.so.2", "ncclGroupStart");
  using Launch = cudaError_t(const void*, dim3, dim3, void**, size_t, cudaStream_t);
  using Record = cudaError_t(cudaEvent_t, cudaStream_t);
  using Wait = cudaError_t(cudaStream_t, cudaEvent_t, unsigned);
  auto* launch = Real<Launch>("libcudart.so.13", "cudaLaunchKernel");
  auto* record = Real<Record>("libcudart.so.13", "cudaEventRecord");
  auto* wait = Real<Wait>("libcudart.so.13", "cudaStreamWaitEvent");
  const Launch* hooked_launch = cudaLaunchKernel;
  auto* event = reinterpret_cast<cudaEvent_t>(buffer);

  Compare(
      "ncclAllReduce", 150,
      [&] { ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); },
      [&] { all_reduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); });
  OtherWork work;
  Compare(
      "ncclAllReduce, behind other work", 150,
      [&] { work(), ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); },
      [&] { work(), all_reduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); });
  // Before the open groups below: what NCCL tells inside of those belongs to calls through symbols.
  const void* table = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
  if (table == nullptr) Fail("the shim is no profiler plugin");
  const gordian::bench::ProfiledCalls profiled(table);
  Compare(
      "ncclAllReduce, told by NCCL's profiler interface", 500,
      [&] {
        all_reduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream);
        profiled.AllReduce(stream, 16);
      },
      [&] { all_reduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); });
  auto* signal = Real<decltype(ncclSignal)>("libnccl.so.2", "ncclSignal");
  auto* wait_signal = Real<decltype(ncclWaitSignal)>("libnccl.so.2", "ncclWaitSignal");
  Compare(
      "ncclSignal", 150, [&] { ncclSignal(1, 0, 0, 0, comm, stream); },
      [&] { signal(1, 0, 0, 0, comm, stream); });
  GordianNcclWaitSignalDesc one = {1, 1, 0, 0};
  Compare(
      "ncclWaitSignal (one peer)", 150, [&] { ncclWaitSignal(1, &one, comm, stream); },
      [&] { wait_signal(1, &one, comm, stream); });
  Compare(
      "ncclGroupStart (inner)", 40, [&] { ncclGroupStart(); }, [&] { group_start(); });
  Compare(
      "cudaLaunchKernel", 40, [&] { hooked_launch(buffer, dim3(1), dim3(1), nullptr, 0, stream); },
      [&] { launch(buffer, dim3(1), dim3(1), nullptr, 0, stream); });
  auto* looked_up = reinterpret_cast<decltype(ncclAllReduce)*>(
      dlsym(dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY), "ncclAllReduce"));
  if (looked_up == nullptr || looked_up == all_reduce)
    Fail("dlsym did not give the shim's function");
  Compare(
      "ncclAllReduce, looked up", 150,
      [&] { looked_up(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); },
      [&] { all_reduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream); });
  Compare(
      "cudaEventRecord", 40, [&] { cudaEventRecord(event, stream); },
      [&] { record(event, stream); });
  Compare(
      "cudaStreamWaitEvent", 40, [&] { cudaStreamWaitEvent(stream, event, 0); },
      [&] { wait(stream, event, 0); });

  const uint64_t expected = (20 + kBatches) * uint64_t{kCallsPerBatch} + kSingles;
  const uint64_t made = reader.header().order - records_before;
  std::printf("%llu records, %llu lost\n", static_cast<unsigned long long>(made),
              static_cast<unsigned long long>(reader.header().lost_records));
  if (made < 13 * expected) Fail("fewer records than calls");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--measure") == 0) {
    Measure(argv[2]);
    return 0;
  }
  char folder[] = "/dev/shm/gordian-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) Fail("no folder in /dev/shm");
  const pid_t child = fork();
  if (child == 0) {
    setenv("LD_PRELOAD", GORDIAN_SHIM_PATH, 1);
    setenv("GORDIAN_RING_DIR", folder, 1);
    setenv("GORDIAN_MARKERS", "0", 1);
    execl("/proc/self/exe", argv[0], "--measure", folder, nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
