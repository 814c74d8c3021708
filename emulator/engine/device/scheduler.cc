#include "emulator/engine/device/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "emulator/engine/process/futex.h"
#include "emulator/engine/process/host_waits.h"

namespace gordian::emu {

Scheduler::Section::Section(Scheduler& scheduler) : scheduler_(scheduler) {
  scheduler_.mutex_.lock();
}

Scheduler::Section::~Section() {
  if (!scheduler_.touched_) {  // queries, and records on idle streams: most calls
    scheduler_.mutex_.unlock();
    return;
  }
  scheduler_.touched_ = false;
  scheduler_.Settle();
  const bool wake = scheduler_.WorkerIsNeeded();
  if (wake) {
    if (!scheduler_.worker_started_) scheduler_.StartWorker();
    scheduler_.worker_wakes_ns_ = 0;
    // litmus: device.ring
    scheduler_.doorbell_->fetch_add(1, std::memory_order_release);
  }
  std::vector<std::shared_ptr<void>> dead = scheduler_.TakeDead();
  scheduler_.mutex_.unlock();
  if (wake) FutexWakeAll(scheduler_.doorbell_);
  scheduler_.Release(std::move(dead));
  scheduler_.NoteActivity();
}

std::vector<std::shared_ptr<void>> Scheduler::TakeDead() {
  if (!dead_.empty()) ++releasing_;
  return std::exchange(dead_, {});
}

void Scheduler::Release(std::vector<std::shared_ptr<void>> dead) {
  if (dead.empty()) return;
  dead.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  --releasing_;
}

void Scheduler::AwaitReleased() {
  // This process may be a fork, in which that thread does not exist: give up after a while.
  for (int tries = 0; tries < 10'000; ++tries) {
    std::vector<std::shared_ptr<void>> dead;
    bool over = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      dead = TakeDead();
      over = dead.empty() && releasing_ == 0;
    }
    Release(std::move(dead));
    if (over) return;
    usleep(100);
  }
}

void Scheduler::AddDependency(const TaskPtr& task, const TaskPtr& dependency) {
  if (dependency == nullptr) return;
  if (dependency->done) {
    task->ready_ns = std::max(task->ready_ns, dependency->done_ns);
    return;
  }
  dependency->dependents.push_back(task);
  ++task->pending;
}

namespace {

bool NeedsSms(const Task& task) {
  return task.kind == TaskKind::kTimedKernel || task.kind == TaskKind::kDeviceOp;
}

}  // namespace

bool Scheduler::PassesQueue(const Task& task) {
  switch (task.kind) {
    case TaskKind::kMarker:
    case TaskKind::kCopy:
    case TaskKind::kHostWait:
    case TaskKind::kForeignWait:
      return false;
    default:
      return true;
  }
}

void Scheduler::Submit(const TaskPtr& task) {
  touched_ = true;
  task->submitted = ++next_submitted_;
  task->ready_ns = std::max(task->ready_ns, NowNs());
  if (PassesQueue(*task)) {
    task->queued = true;
    devices_[task->device].queues[task->queue].tasks.push_back(task);
    if (task->op != nullptr) ops_[task->op.get()] = task;
  }
  if (task->pending == 0) OnReady(task);
}

void Scheduler::OnReady(const TaskPtr& task) {
  if (PassesQueue(*task)) {
    task->ready_sequence = ++next_ready_sequence_;
    devices_[task->device].changed = true;
  } else if (task->kind == TaskKind::kMarker) {
    if (task->work != nullptr) {
      task->work();
      task->work = nullptr;
      values_written_ = true;
    }
    Finish(task, task->ready_ns);
  } else if (task->kind == TaskKind::kCopy) {
    Dispatch(task);
  } else if (task->kind == TaskKind::kForeignWait) {
    AskForPolls(task);
  } else {
    task->done = true;
    task->signal.store(1, std::memory_order_release);
    FutexWakeAll(&task->signal);
  }
}

void Scheduler::AskForPolls(const TaskPtr& task) {
  if (task->polled) return;
  task->polled = true;
  polled_.push_back(task);
  polls_asked_ = true;
}

// True when one of the waits for memory is over.
bool Scheduler::PollMemory() {
  bool any = false;
  for (size_t i = 0; i < polled_.size();) {
    const TaskPtr task = polled_[i];
    if (!task->done && !task->cancelled && !task->satisfied()) {
      ++i;
      continue;
    }
    any = true;
    task->polled = false;
    polled_[i] = polled_.back();
    polled_.pop_back();
    if (task->kind == TaskKind::kValueWait) {
      devices_[task->device].changed = true;  // its queue looks again
    } else if (!task->done) {
      Finish(task, NowNs());
    }
  }
  return any;
}

// Hands a task that left its queue to the thread that runs it.
void Scheduler::Dispatch(const TaskPtr& task) {
  if (task->kind != TaskKind::kHostFunction) {
    to_run_.push_back(task);
    return;
  }
  host_threads_[task->device]->Run([this, task] {
    task->work();
    task->work = nullptr;
    Section section(*this);
    Finish(task, NowNs());
  });
}

void Scheduler::Finish(const TaskPtr& task, int64_t when_ns) {
  touched_ = true;
  task->done = true;
  task->done_ns = when_ns;
  if (task->held_sms > 0) {
    DeviceState& device = devices_[task->device];
    device.free_sms += task->held_sms;
    device.sms_freed_ns = std::max(device.sms_freed_ns, when_ns);
    device.changed = true;
    task->held_sms = 0;
  }
  if (task->at_start != nullptr) {
    Finish(std::exchange(task->at_start, nullptr), when_ns);  // cancelled before it started
  }
  if (task->op != nullptr) {
    ops_.erase(task->op.get());
    dead_.push_back(std::move(task->op));
  }
  if (task->keep != nullptr) dead_.push_back(std::move(task->keep));
  finished_.push_back(task);
}

void Scheduler::Settle() {
  for (;;) {
    while (!finished_.empty()) {
      const TaskPtr task = std::move(finished_.back());
      finished_.pop_back();
      const std::vector<TaskPtr> dependents = std::move(task->dependents);
      task->dependents.clear();
      for (const TaskPtr& dependent : dependents) {
        dependent->ready_ns = std::max(dependent->ready_ns, task->done_ns);
        if (--dependent->pending == 0) OnReady(dependent);
      }
    }
    if (values_written_) {
      values_written_ = false;
      PollMemory();
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].changed) StartKernels(static_cast<int>(i));
    }
    if (finished_.empty() && !values_written_) return;
  }
}

void Scheduler::StartKernels(int device) {
  devices_[device].changed = false;
  while (StartWithoutSms(device) || StartKernel(device)) {
  }
}

// Starts what needs no SMs at the head of a queue, or takes a cancelled task out.
bool Scheduler::StartWithoutSms(int device_index) {
  std::vector<Queue>& queues = devices_[device_index].queues;
  const size_t first = Choose(queues.size());
  for (size_t i = 0; i < queues.size(); ++i) {
    Queue& queue = queues[(first + i) % queues.size()];
    if (queue.tasks.empty()) continue;
    const TaskPtr task = queue.tasks.front();
    if (task->pending > 0 || (NeedsSms(*task) && !task->cancelled)) continue;
    if (task->kind == TaskKind::kValueWait && !task->cancelled && !task->satisfied()) {
      AskForPolls(task);
      continue;
    }
    queue.tasks.pop_front();
    task->queued = false;
    if (task->cancelled || task->kind == TaskKind::kValueWait) {
      Finish(task, task->cancelled ? task->ready_ns : NowNs());
    } else if (task->kind == TaskKind::kQueuedMarker) {
      Finish(task, task->ready_ns);
    } else if (task->kind == TaskKind::kValueWrite) {
      task->work();
      task->work = nullptr;
      values_written_ = true;
      Finish(task, NowNs());
    } else {
      Dispatch(task);
    }
    return true;
  }
  return false;
}

// Starts the first kernel in line: at the head of its hardware queue, with nothing before it on its
// streams, by priority, then by arrival. If it lacks SMs, those behind it wait, as in the device's
// block scheduler.
bool Scheduler::StartKernel(int device_index) {
  DeviceState& device = devices_[device_index];
  Queue* from = nullptr;
  const size_t first = Choose(device.queues.size());
  for (size_t i = 0; i < device.queues.size(); ++i) {
    Queue& queue = device.queues[(first + i) % device.queues.size()];
    if (queue.tasks.empty()) continue;
    const Task& head = *queue.tasks.front();
    if (head.pending > 0 || !NeedsSms(head)) continue;
    if (from != nullptr) {
      const Task& best = *from->tasks.front();
      if (best.priority < head.priority) continue;
      // The device chooses between two kernels of one priority; a seed varies the choice.
      if (best.priority == head.priority &&
          (options_.seed != 0 || best.ready_sequence < head.ready_sequence)) {
        continue;
      }
    }
    from = &queue;
  }
  if (from == nullptr) return false;
  const TaskPtr task = from->tasks.front();
  // A timed kernel stands for a user's kernel, whose blocks run in turns on any free SMs. An NCCL
  // kernel's blocks communicate, so all of them must be resident.
  const int wanted = std::clamp(task->sms, 1, options_.sms);
  const int needed = task->kind == TaskKind::kTimedKernel ? 1 : wanted;
  if (device.free_sms < needed) {
    task->waited_for_sms = true;
    return false;
  }
  from->tasks.pop_front();
  task->queued = false;
  task->held_sms = std::min(wanted, device.free_sms);
  device.free_sms -= task->held_sms;
  int64_t start_ns = std::max(task->ready_ns, from->last_start_ns);
  if (task->waited_for_sms) start_ns = std::max(start_ns, device.sms_freed_ns);
  from->last_start_ns = start_ns;
  if (task->kind == TaskKind::kDeviceOp) {
    if (task->at_start != nullptr) Finish(std::exchange(task->at_start, nullptr), start_ns);
    Dispatch(task);
    return true;
  }
  const int64_t deadline_ns = start_ns + task->duration_ns;
  if (task->duration_ns == 0 || deadline_ns <= NowNs()) {
    Finish(task, deadline_ns);
  } else {
    timers_.push_back({deadline_ns, task});
    std::push_heap(timers_.begin(), timers_.end());
  }
  return true;
}

void Scheduler::RunTimers(int64_t now_ns) {
  while (!timers_.empty() && timers_.front().deadline_ns <= now_ns) {
    const TaskPtr task = timers_.front().task;
    const int64_t deadline_ns = timers_.front().deadline_ns;
    std::pop_heap(timers_.begin(), timers_.end());
    timers_.pop_back();
    if (!task->done) Finish(task, deadline_ns);  // done already: cancelled
    Settle();
  }
}

void Scheduler::CatchUp() {
  if (!timers_.empty()) RunTimers(NowNs());
}

TaskPtr Scheduler::FindOp(const DeviceOp* op) const {
  const auto at = ops_.find(op);
  return at == ops_.end() ? nullptr : at->second;
}

int Scheduler::ChooseQueue(int device) {
  const std::vector<Queue>& queues = devices_[device].queues;
  const size_t first = Choose(queues.size());
  size_t best = first;
  for (size_t n = 1; n < queues.size(); ++n) {
    const size_t i = (first + n) % queues.size();
    if (queues[i].tasks.size() < queues[best].tasks.size()) best = i;
  }
  return static_cast<int>(best);
}

bool Scheduler::HasFreeQueue(int device) {
  return devices_[device].queues[ChooseQueue(device)].tasks.empty();
}

void Scheduler::Await(const TaskPtr& host_wait) {
  if (host_wait->signal.load(std::memory_order_acquire) != 0) return;
  HostWait wait;
  wait.kind = WaitName::Current();
  wait.word = &host_wait->signal;
  wait.task = host_wait.get();
  HostWaits::Get().Begin(&wait);
  while (host_wait->signal.load(std::memory_order_acquire) == 0) {
    FutexWait(&host_wait->signal, 0, INT64_MAX);
  }
  HostWaits::Get().End(&wait);
}

size_t Scheduler::Choose(size_t count) { return options_.seed == 0 ? 0 : random_() % count; }

}  // namespace gordian::emu
