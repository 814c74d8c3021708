// The worker thread's half of the scheduler.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/process/futex.h"

namespace gordian::emu {
namespace {

// How soon the worker polls memory again: at first, and after a long time without change.
constexpr int64_t kFirstLookNs = 20'000;
constexpr int64_t kLastLookNs = 1'000'000;

}  // namespace

Scheduler::Scheduler(const Options& options)
    : options_(options),
      devices_(options.devices.size()),
      random_(static_cast<uint32_t>(options.seed)) {
  for (DeviceState& device : devices_) {
    device.free_sms = options.sms;
    device.queues.resize(options.connections);
    host_threads_.push_back(std::make_unique<HostThread>());
  }
  constexpr size_t kPage = 4096;
  doorbell_fd_ = memfd_create("gordian-emu-doorbell", MFD_CLOEXEC);
  void* page = MAP_FAILED;
  if (doorbell_fd_ >= 0 && ftruncate(doorbell_fd_, kPage) == 0) {
    page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, doorbell_fd_, 0);
  }
  if (page == MAP_FAILED) {
    // The engine still works alone in its process; only peers cannot ring.
    fprintf(stderr, "gordian emulator: no doorbell page: %m\n");
    page = calloc(1, kPage);
  }
  doorbell_ = new (page) std::atomic<uint32_t>(0);
}

bool Scheduler::WorkerIsNeeded() const {
  if (worker_started_ && worker_wakes_ns_ == 0) return false;  // awake: it looks before it sleeps
  if (!to_run_.empty() || cancels_asked_ != 0 || polls_asked_) return true;
  if (timers_.empty()) return false;
  return !worker_started_ || timers_.front().deadline_ns < worker_wakes_ns_;
}

void Scheduler::StartWorker() {
  worker_started_ = StartThread("emu-device", [this] { WorkerMain(); });
  if (!worker_started_) fprintf(stderr, "gordian emulator: cannot start the device's thread\n");
}

void Scheduler::WorkerMain() {
  prctl(PR_SET_TIMERSLACK, 1UL);  // kernels take microseconds
  bool polled = false;
  int64_t look_after_ns = kFirstLookNs;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    // Reads the bell before looking at anything: a change after that makes the wait below return at
    // once.
    // litmus: device.bell
    const uint32_t bell = doorbell_->load(std::memory_order_acquire);
    RunTimers(NowNs());
    if (cancels_asked_ != 0) RunCancels(lock);
    RunStarts(lock);
    if (!polled || bell != polled_bell_) {
      polled = true;
      polled_bell_ = bell;
      PollResident(lock);
    }
    if (!polled_.empty()) {
      const bool any = PollMemory();
      look_after_ns = any || polls_asked_ ? kFirstLookNs : std::min(2 * look_after_ns, kLastLookNs);
      Settle();
    }
    polls_asked_ = false;
    if (!to_run_.empty() || cancels_asked_ != 0) continue;
    int64_t deadline_ns = timers_.empty() ? INT64_MAX : timers_.front().deadline_ns;
    if (!polled_.empty()) deadline_ns = std::min(deadline_ns, NowNs() + look_after_ns);
    if (deadline_ns <= NowNs()) continue;
    worker_wakes_ns_ = deadline_ns;
    // Polling memory now and then counts as idle.
    const bool idle = timers_.empty() && (polled_.empty() || look_after_ns == kLastLookNs);
    std::vector<std::shared_ptr<void>> dead = TakeDead();
    lock.unlock();
    Release(std::move(dead));
    if (idle) PokeQuiescence();
    FutexWait(doorbell_, bell, deadline_ns);
    lock.lock();
    worker_wakes_ns_ = 0;
  }
}

void Scheduler::RunStarts(std::unique_lock<std::mutex>& lock) {
  while (!to_run_.empty()) {
    const TaskPtr task = std::move(to_run_.front());
    to_run_.pop_front();
    lock.unlock();
    bool done = true;
    if (task->kind == TaskKind::kCopy || task->kind == TaskKind::kFill) {
      task->work();
      task->work = nullptr;
    } else {
      done = task->op->Start();
    }
    const int64_t now_ns = NowNs();
    lock.lock();
    if (done) {
      Finish(task, now_ns);
    } else {
      resident_.push_back(task);
    }
    RunTimers(now_ns);
    Settle();
  }
}

void Scheduler::PollResident(std::unique_lock<std::mutex>& lock) {
  // Only this thread changes resident_, so it may be walked without the lock.
  if (options_.seed != 0) std::shuffle(resident_.begin(), resident_.end(), random_);
  size_t kept = 0;
  for (size_t i = 0; i < resident_.size(); ++i) {
    const TaskPtr task = resident_[i];
    lock.unlock();
    const bool done = task->op->Poll();
    const int64_t now_ns = NowNs();
    lock.lock();
    if (done) {
      Finish(task, now_ns);
      Settle();
    } else {
      resident_[kept++] = task;
    }
  }
  resident_.resize(kept);
}

void Scheduler::CancelKernels(int device) {
  {
    Section section(*this);
    touched_ = true;
    for (Queue& queue : devices_[device].queues) {
      for (const TaskPtr& task : queue.tasks) task->cancelled = true;
    }
    for (const Timer& timer : timers_) {
      if (timer.task->device == device && !timer.task->done) Finish(timer.task, NowNs());
    }
    for (const TaskPtr& task : polled_) {
      if (task->device == device) task->cancelled = true;
    }
    PollMemory();
    devices_[device].changed = true;
    cancels_asked_ |= uint64_t{1} << device;
  }
}

void Scheduler::RunCancels(std::unique_lock<std::mutex>& lock) {
  const uint64_t devices = std::exchange(cancels_asked_, 0);
  const auto cancelled = [devices](const TaskPtr& task) {
    return task->kind == TaskKind::kDeviceOp && (devices >> task->device & 1) != 0;
  };
  std::vector<TaskPtr> leaving;
  std::copy_if(resident_.begin(), resident_.end(), std::back_inserter(leaving), cancelled);
  resident_.erase(std::remove_if(resident_.begin(), resident_.end(), cancelled), resident_.end());
  // A kernel that has its SMs and was about to start never does.
  for (auto at = to_run_.begin(); at != to_run_.end();) {
    if (cancelled(*at)) {
      leaving.push_back(*at);
      at = to_run_.erase(at);
    } else {
      ++at;
    }
  }
  lock.unlock();
  for (const TaskPtr& task : leaving) task->op->Cancel();
  lock.lock();
  for (const TaskPtr& task : leaving) Finish(task, NowNs());
  Settle();
}

}  // namespace gordian::emu
