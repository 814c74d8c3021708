#include "runtime/cuda/worker/worker.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/service_thread.h"
#include "runtime/cuda/driver/cuda_calls.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/worker/worker_kernel.h"

namespace gordian::runtime::cuda {
namespace {

// A thread that waits polls its word for kLookingNs, then sleeps between looks: for an eighth of
// the time that it has waited, within limits.
constexpr int64_t kLookingNs = 1'000'000;
constexpr int64_t kLeastSleepNs = 50'000;
constexpr int64_t kMostSleepNs = 1'000'000;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

}  // namespace

struct Worker::Turn {
  std::shared_ptr<Worker> worker;
  std::vector<uint32_t> tickets;
};

// Events recorded behind host functions. Streams wait for them while those functions have not run.
class Worker::Marks : public std::enable_shared_from_this<Worker::Marks> {
 public:
  struct Mark {
    explicit Mark(std::shared_ptr<Marks> of) : marks(std::move(of)) {}
    ~Mark() {  // may run on a thread of CUDA's, which must not call CUDA
      if (event == nullptr) return;
      const std::lock_guard<std::mutex> lock(marks->mutex_);
      marks->spare_.push_back(event);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    const std::shared_ptr<Marks> marks;
    cudaEvent_t event = nullptr;
  };
  ~Marks() {
    for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
  }
  cudaError_t Record(cudaStream_t stream, std::shared_ptr<Mark>* out) {
    auto mark = std::make_shared<Mark>(shared_from_this());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!spare_.empty()) {
        mark->event = spare_.back();
        spare_.pop_back();
      }
    }
    cudaError_t e = cudaSuccess;
    if (mark->event == nullptr) e = cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventRecord(mark->event, stream);
    *out = std::move(mark);
    return e;
  }

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
};

Worker::Worker(const WorkerConfig& config, int device, const uint32_t* stop,
               std::function<Status()> health)
    : config_(config), device_index_(device), stop_(stop), health_(std::move(health)) {}

Status Worker::Create(const WorkerConfig& config, int device, const uint32_t* stop,
                      std::function<Status()> health, std::shared_ptr<Worker>* worker) {
  std::shared_ptr<Worker> w(new Worker(config, device, stop, std::move(health)));
  if (Status s = w->Prepare(); !s.ok()) return s;
  *worker = std::move(w);
  return Status::Ok();
}

Status Worker::Prepare() {
  cudaError_t e =
      cudaHostAlloc(reinterpret_cast<void**>(&host_), sizeof(WorkerHost), cudaHostAllocMapped);
  if (e == cudaSuccess) e = cudaMalloc(reinterpret_cast<void**>(&device_), sizeof(WorkerDevice));
  // The highest priority: other kernels that wait for a place may depend on the worker.
  int least = 0, greatest = 0;
  if (e == cudaSuccess) e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (e == cudaSuccess) e = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
  if (e == cudaSuccess)
    e = cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming | cudaEventBlockingSync);
  if (e == cudaSuccess) e = cudaMemsetAsync(device_, 0, sizeof(WorkerDevice), stream_);
  if (e == cudaSuccess) e = PreloadWorker(stream_);
  if (e == cudaSuccess) e = cudaStreamSynchronize(stream_);
  if (Status s = Cuda(e, "preparing the resident worker"); !s.ok()) return s;
  *host_ = WorkerHost{};
  marks_ = std::make_shared<Marks>();
  queue_ = std::make_unique<WorkerQueue>(host_, config_.gaps);
  watcher_ = MakeServiceThread("gordian-worker", [this] { Watch(); });
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
    EndIfOver();
    wake_.notify_all();
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void Worker::Stopped() {
  std::lock_guard<std::mutex> held(lock_);
  EndIfOver();
  wake_.notify_all();
  changed_.notify_all();
}

Status Worker::Alive() const {
  if (over_) return Status::Unavailable("the domain has ended");
  if (!failed_.ok()) return failed_;
  return health_();
}

void Worker::EndIfOver() {
  if (queue_ == nullptr || Alive().ok()) return;
  queue_->EndAll();
  ended_all_ = true;
}

Status Worker::Refusal(WorkerQueue::Added added) {
  if (added == WorkerQueue::Added::kFull) {
    return Status::Unavailable("too many detached operations are unfinished: " +
                               std::to_string(kDetachedEntries));
  }
  return Status::Unavailable("too many ports have detached operations: " +
                             std::to_string(kWorkerPorts));
}

Status Worker::Submit(const WorkerOperation& operation, Detached* handle) {
  std::lock_guard<std::mutex> held(lock_);
  if (Status s = Alive(); !s.ok()) return s;
  uint32_t ticket = 0;
  const WorkerQueue::Added added = queue_->Add(operation, true, &ticket, [] {});
  if (added != WorkerQueue::Added::kTold && added != WorkerQueue::Added::kMustRing)
    return Refusal(added);
  if (added == WorkerQueue::Added::kMustRing) wake_.notify_one();
  *handle = Detached(shared_from_this(), ticket);
  return Status::Ok();
}

Status Worker::SubmitBehind(const std::vector<WorkerOperation>& operations, cudaStream_t stream,
                            std::vector<Detached>* handles) {
  auto turn = std::make_unique<Turn>();
  turn->worker = shared_from_this();
  {
    std::lock_guard<std::mutex> held(lock_);
    Status s = Alive();
    for (size_t i = 0; i < operations.size() && s.ok(); ++i) {
      uint32_t ticket = 0;
      const WorkerQueue::Added added = queue_->Add(operations[i], false, &ticket, [] {});
      if (added != WorkerQueue::Added::kTold) {
        s = Refusal(added);
      } else {
        turn->tickets.push_back(ticket);
      }
    }
    if (!s.ok()) {
      for (const uint32_t ticket : turn->tickets) queue_->Cancel(ticket);
      return s;
    }
  }
  const std::vector<uint32_t> tickets = turn->tickets;
  // No lock is held: a launch may wait until the stream has room, and host functions take the lock.
  cudaError_t e = cudaLaunchHostFunc(stream, &Worker::TakeTurn, turn.get());
  if (e != cudaSuccess) {
    std::lock_guard<std::mutex> held(lock_);
    for (const uint32_t ticket : tickets) queue_->Cancel(ticket);
    wake_.notify_one();
    return Cuda(e, "submitting behind a stream's work");
  }
  [[maybe_unused]] Turn* const handed_over = turn.release();
  std::shared_ptr<Marks::Mark> mark;
  e = marks_->Record(stream, &mark);
  if (e != cudaSuccess)
    return Cuda(e, "marking where operations begin");  // they began, but streams cannot wait for it
  std::lock_guard<std::mutex> held(lock_);
  handles->clear();
  for (const uint32_t ticket : tickets) {
    queue_->Note(ticket, mark);
    handles->push_back(Detached(shared_from_this(), ticket));
  }
  return Status::Ok();
}

void Worker::TakeTurn(void* argument) {
  const std::unique_ptr<Turn> turn(static_cast<Turn*>(argument));
  Worker& worker = *turn->worker;
  std::lock_guard<std::mutex> held(worker.lock_);
  bool rings = false;
  for (const uint32_t ticket : turn->tickets) rings = worker.queue_->Ready(ticket, [] {}) || rings;
  // If the list has no room, a later host function publishes the operation, or the watcher when no
  // instance runs.
  rings = worker.queue_->Flush([] {}) || rings;
  if (rings) worker.wake_.notify_one();
}

Status Worker::StreamWait(std::vector<uint32_t> tickets, cudaStream_t stream) {
  std::vector<std::shared_ptr<void>> notes;
  {
    std::lock_guard<std::mutex> held(lock_);
    std::erase_if(tickets, [this](uint32_t ticket) { return queue_->IsDone(ticket); });
    for (const uint32_t ticket : tickets) {
      for (std::shared_ptr<void>& note : queue_->NotesBefore(ticket))
        notes.push_back(std::move(note));
    }
  }
  if (tickets.empty()) return Status::Ok();
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  for (const std::shared_ptr<void>& note : notes) {
    const cudaError_t e =
        cudaStreamWaitEvent(stream, static_cast<Marks::Mark*>(note.get())->event, 0);
    if (Status s = Cuda(e, "waiting until an operation may begin"); !s.ok()) return s;
  }
  return EnqueueWaits(tickets, stream);
}

Status Worker::EnqueueWaits(const std::vector<uint32_t>& tickets, cudaStream_t stream) {
  int device = -1;
  if (Status s = Cuda(cudaGetDevice(&device), "asking for the device"); !s.ok()) return s;
  if (!config_.waits_by_queue && device == device_index_) {  // the kernel reads the worker's memory
    for (size_t begin = 0; begin < tickets.size(); begin += kJoinTickets) {
      JoinTickets some{};
      some.count = static_cast<uint32_t>(std::min<size_t>(tickets.size() - begin, kJoinTickets));
      std::copy_n(tickets.begin() + static_cast<std::ptrdiff_t>(begin), some.count, some.of);
      if (Status s = Cuda(LaunchJoin(View(0), some, stream), "waiting for operations"); !s.ok())
        return s;
    }
    return Status::Ok();
  }
  std::string why;
  const Driver* const driver = LoadDriver(&why);
  if (driver == nullptr) return Status::Unavailable(why);
  for (const uint32_t ticket : tickets) {
    const auto word = reinterpret_cast<CUdeviceptr>(queue_->WordOf(ticket));
    const CUresult r = driver->stream_wait_value(stream, word, ticket, CU_STREAM_WAIT_VALUE_GEQ);
    if (r != CUDA_SUCCESS)
      return Status::Internal("a stream's wait for a word: " + std::to_string(r));
  }
  return Status::Ok();
}

WorkerView Worker::View(uint32_t instance) const {
  return {host_,
          device_,
          stop_,
          instance,
          config_.policy,
          config_.spin,
          config_.idle_quit_us * 1000,
          config_.stuck_quit_us * 1000};
}

void Worker::Forget(uint64_t port) {
  std::lock_guard<std::mutex> held(lock_);
  queue_->Forget(port);
}

// The watcher of core/life.h. It starts an instance only from kDown, since it first waits for the
// kernel's end, by an event that lets it sleep.
void Worker::Watch() {
  const RelaxedCapture relaxed;
  std::unique_lock<std::mutex> held(lock_);
  failed_ = Cuda(cudaSetDevice(device_index_), "selecting the device");
  while (!over_) {
    if (!Alive().ok()) {
      EndIfOver();
      changed_.notify_all();
      wake_.wait(held);
      continue;
    }
    queue_->Flush([] {});
    const int64_t now = NowNs();
    const int64_t at = queue_->list()->StartAt(now);
    if (at == WorkerList::kNever) {
      wake_.wait(held);
      continue;
    }
    if (at > now) {
      wake_.wait_for(held, std::chrono::nanoseconds(at - now));
      continue;
    }
    queue_->list()->Starting();
    const WorkerView view = View(queue_->list()->instance());
    held.unlock();
    cudaError_t e = config_.launch ? config_.launch(view, config_.blocks, stream_)
                                   : LaunchWorker(view, config_.blocks, stream_);
    if (e == cudaSuccess) e = cudaEventRecord(ended_, stream_);
    if (e == cudaSuccess) e = cudaEventSynchronize(ended_);
    held.lock();
    if (failed_.ok()) failed_ = Cuda(e, "running the resident worker");
    queue_->list()->Ended(NowNs());
    changed_.notify_all();
  }
}

Status Worker::Wait(uint32_t ticket, uint64_t timeout_ns) {
  const int64_t begin = NowNs();
  for (;;) {
    if (queue_->IsDone(ticket)) return ResultOf(ticket);
    const int64_t waited = NowNs() - begin;
    if (static_cast<uint64_t>(waited) >= timeout_ns)
      return Status::Deadline("the operation is unfinished");
    if (waited < kLookingNs) continue;
    std::unique_lock<std::mutex> held(lock_);
    if (queue_->IsDone(ticket)) continue;
    if (Status s = Alive(); !s.ok()) return s;
    const int64_t sleep = std::clamp(waited / 8, kLeastSleepNs, kMostSleepNs);
    changed_.wait_for(held,
                      std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns - waited, sleep)));
  }
}

// After the worker's end also an operation that was done before gets the error.
Status Worker::ResultOf(uint32_t ticket) {
  std::lock_guard<std::mutex> held(lock_);
  if (!queue_->IsDone(ticket)) return Status::Deadline("the operation is unfinished");
  return ended_all_ ? Alive() : Status::Ok();
}

Worker::Stats Worker::stats() {
  std::lock_guard<std::mutex> held(lock_);
  Stats s;
  s.instances = queue_->list()->instance();
  s.resident_ns = __atomic_load_n(&host_->resident_ns, __ATOMIC_ACQUIRE);
  s.visits = host_->visits;
  s.progress = host_->progress;
  s.switches = host_->switches;
  return s;
}

bool Detached::IsDone() const { return worker_ == nullptr || worker_->queue_->IsDone(ticket_); }

Status Detached::Result() const {
  return worker_ == nullptr ? Status::Ok() : worker_->ResultOf(ticket_);
}

Status Detached::Wait(uint64_t timeout_ns) const {
  return worker_ == nullptr ? Status::Ok() : worker_->Wait(ticket_, timeout_ns);
}

Status Detached::StreamWait(const std::vector<Detached>& operations, cudaStream_t stream) {
  std::shared_ptr<Worker> worker;
  std::vector<uint32_t> tickets;
  for (const Detached& operation : operations) {
    if (operation.worker_ == nullptr) continue;
    worker = operation.worker_;
    tickets.push_back(operation.ticket_);
  }
  return worker == nullptr ? Status::Ok() : worker->StreamWait(std::move(tickets), stream);
}

}  // namespace gordian::runtime::cuda
