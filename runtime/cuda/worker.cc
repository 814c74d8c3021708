#include "runtime/cuda/worker.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "runtime/cuda/cuda_calls.h"
#include "runtime/cuda/worker_kernel.h"

namespace gordian::runtime::cuda {
namespace {

// A wait looks at its word so long, then sleeps between looks: an eighth of what it has waited, within limits.
constexpr int64_t kLookingNs = 1'000'000;
constexpr int64_t kLeastSleepNs = 50'000;
constexpr int64_t kMostSleepNs = 1'000'000;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

}  // namespace

Worker::Worker(const WorkerConfig& config, int device, const uint32_t* stop, std::function<Status()> health)
    : config_(config), device_index_(device), stop_(stop), health_(std::move(health)) {}

Status Worker::Create(const WorkerConfig& config, int device, const uint32_t* stop,
                      std::function<Status()> health, std::shared_ptr<Worker>* worker) {
  std::shared_ptr<Worker> w(new Worker(config, device, stop, std::move(health)));
  if (Status s = w->Prepare(); !s.ok()) return s;
  *worker = std::move(w);
  return Status::Ok();
}

Status Worker::Prepare() {
  cudaError_t e = cudaHostAlloc(reinterpret_cast<void**>(&host_), sizeof(WorkerHost), cudaHostAllocMapped);
  if (e == cudaSuccess) e = cudaMalloc(reinterpret_cast<void**>(&device_), sizeof(WorkerDevice));
  // Before all others that wait for a place: it is what they may wait for.
  int least = 0, greatest = 0;
  if (e == cudaSuccess) e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (e == cudaSuccess) e = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
  if (e == cudaSuccess) e = cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming | cudaEventBlockingSync);
  if (e == cudaSuccess) e = cudaMemsetAsync(device_, 0, sizeof(WorkerDevice), stream_);
  if (e == cudaSuccess) e = PreloadWorker(stream_);
  if (e == cudaSuccess) e = cudaStreamSynchronize(stream_);
  if (Status s = Cuda(e, "preparing the resident worker"); !s.ok()) return s;
  *host_ = WorkerHost{};
  list_ = std::make_unique<WorkerList>(host_, config_.gaps);
  watcher_ = std::thread([this] { Watch(); });
  return Status::Ok();
}

Worker::~Worker() {
  End();
  if (ended_ != nullptr) cudaEventDestroy(ended_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (device_ != nullptr) cudaFree(device_);
  if (host_ != nullptr) cudaFreeHost(host_);
}

void Worker::End() {
  {
    std::lock_guard<std::mutex> held(lock_);
    over_ = true;
    if (host_ != nullptr) __atomic_store_n(&host_->ask, 1, __ATOMIC_RELEASE);
    wake_.notify_all();
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void Worker::Stopped() {
  std::lock_guard<std::mutex> held(lock_);
  wake_.notify_all();
  changed_.notify_all();
}

Status Worker::Alive() const {
  if (over_) return Status::Unavailable("the domain has ended");
  if (!failed_.ok()) return failed_;
  return health_();
}

Status Worker::Submit(const Work& work, uint64_t port, uint64_t key, uint32_t priority, Detached* operation) {
  std::lock_guard<std::mutex> held(lock_);
  if (Status s = Alive(); !s.ok()) return s;
  uint32_t id = 0;
  switch (list_->Add(work, port, key, priority, &id, [] {})) {
    case WorkerList::Added::kFull:
      return Status::Unavailable("too many detached operations are unfinished: " + std::to_string(kDetachedEntries));
    case WorkerList::Added::kTooManyPorts:
      return Status::Unavailable("too many ports have detached operations: " + std::to_string(kWorkerPorts));
    case WorkerList::Added::kMustRing:
      wake_.notify_one();
      break;
    case WorkerList::Added::kTold:
      break;
  }
  *operation = Detached(shared_from_this(), id);
  return Status::Ok();
}

void Worker::Forget(uint64_t port) {
  std::lock_guard<std::mutex> held(lock_);
  list_->Forget(port);
}

// The watcher of core/life.h. That it starts an instance from kDown alone follows from its waiting for the
// kernel's end, by an event that lets it sleep.
void Worker::Watch() {
  const RelaxedCapture relaxed;
  std::unique_lock<std::mutex> held(lock_);
  failed_ = Cuda(cudaSetDevice(device_index_), "selecting the device");
  while (!over_) {
    if (!Alive().ok()) {
      changed_.notify_all();
      wake_.wait(held);
      continue;
    }
    const int64_t now = NowNs();
    const int64_t at = list_->StartAt(now);
    if (at == WorkerList::kNever) {
      wake_.wait(held);
      continue;
    }
    if (at > now) {
      wake_.wait_for(held, std::chrono::nanoseconds(at - now));
      continue;
    }
    list_->Starting();
    const WorkerView view{host_,        device_,      stop_, list_->instance(), config_.policy,
                          config_.spin, config_.idle_quit_us * 1000, config_.stuck_quit_us * 1000};
    held.unlock();
    cudaError_t e = config_.launch ? config_.launch(view, config_.blocks, stream_)
                                   : LaunchWorker(view, config_.blocks, stream_);
    if (e == cudaSuccess) e = cudaEventRecord(ended_, stream_);
    if (e == cudaSuccess) e = cudaEventSynchronize(ended_);
    held.lock();
    if (failed_.ok()) failed_ = Cuda(e, "running the resident worker");
    list_->Ended(NowNs());
    changed_.notify_all();
  }
}

Status Worker::Wait(uint32_t id, uint64_t timeout_ns) {
  const int64_t begin = NowNs();
  for (;;) {
    if (list_->IsDone(id)) return Status::Ok();
    const int64_t waited = NowNs() - begin;
    if (static_cast<uint64_t>(waited) >= timeout_ns) return Status::Deadline("the operation is unfinished");
    if (waited < kLookingNs) continue;
    std::unique_lock<std::mutex> held(lock_);
    if (list_->IsDone(id)) return Status::Ok();
    if (Status s = Alive(); !s.ok()) return s;
    const int64_t sleep = std::clamp(waited / 8, kLeastSleepNs, kMostSleepNs);
    changed_.wait_for(held, std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns - waited, sleep)));
  }
}

Worker::Stats Worker::stats() {
  std::lock_guard<std::mutex> held(lock_);
  Stats s;
  s.instances = list_->instance();
  s.resident_ns = __atomic_load_n(&host_->resident_ns, __ATOMIC_ACQUIRE);
  s.visits = host_->visits;
  s.progress = host_->progress;
  s.switches = host_->switches;
  return s;
}

bool Detached::IsDone() const { return worker_ == nullptr || worker_->list_->IsDone(id_); }

Status Detached::Wait(uint64_t timeout_ns) const {
  return worker_ == nullptr ? Status::Ok() : worker_->Wait(id_, timeout_ns);
}

}  // namespace gordian::runtime::cuda
