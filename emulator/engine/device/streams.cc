// Streams, events, and the work put on them.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/graph/graphs_impl.h"
#include "emulator/engine/process/futex.h"

namespace gordian::emu {

// --- Streams as dependencies ---

Stream* EngineImpl::Resolve(void* handle, int device) {
  if (handle == nullptr || handle == kLegacyStream) return devices_[device].legacy.get();
  if (handle == kPerThreadStream) return PerThreadStream(device);
  return live_streams_.count(handle) != 0 ? static_cast<Stream*>(handle) : nullptr;
}

Stream* EngineImpl::Resolve(void* handle) {
  // The device matters for the default streams only.
  const bool named = reinterpret_cast<uintptr_t>(handle) > 2;
  return Resolve(handle, named ? 0 : CurrentThread().stack.back()->device);
}

bool EngineImpl::IsLive(const Stream* stream) const {
  if (live_streams_.count(const_cast<Stream*>(stream)) != 0) return true;
  return std::any_of(devices_.begin(), devices_.end(),
                     [stream](const Device& device) { return device.legacy.get() == stream; });
}

Stream* EngineImpl::PerThreadStream(int device) {
  static std::atomic<uint64_t> next_thread{1};
  ThreadState& thread = CurrentThread();
  if (thread.id == 0) thread.id = next_thread++;
  Stream*& stream = devices_[device].per_thread[thread.id];
  if (stream == nullptr) stream = NewStream(device, 0, 0);
  return stream;
}

Stream* EngineImpl::NewStream(int device, unsigned flags, int priority) {
  auto* stream = new Stream;
  stream->device = device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, 0);
  stream->id = next_stream_id_++;
  devices_[device].streams.insert(stream);
  live_streams_.insert(stream);
  return stream;
}

void EngineImpl::RetireStream(Stream* stream) {
  graphs_->ForgetStream(stream);
  Device& device = devices_[stream->device];
  auto& orphans = device.orphans;
  orphans.erase(std::remove_if(orphans.begin(), orphans.end(),
                               [](const Orphan& orphan) { return orphan.task->done; }),
                orphans.end());
  if (stream->last != nullptr && !stream->last->done) {
    orphans.push_back({stream->last, stream->Blocking()});
  }
  device.streams.erase(stream);
  live_streams_.erase(stream);
  delete stream;
}

void EngineImpl::ThreadEnds(uint64_t thread) {
  if (!Initialized()) return;
  Scheduler::Section section(*scheduler_);
  for (Device& device : devices_) {
    const auto at = device.per_thread.find(thread);
    if (at == device.per_thread.end()) continue;
    RetireStream(at->second);
    device.per_thread.erase(at);
  }
}

// Adds the dependencies of new work on the stream. The legacy stream and the blocking streams of a
// device wait for each other's earlier work.
void EngineImpl::AddStreamDependencies(const TaskPtr& task, const Stream& stream) {
  const Device& device = devices_[stream.device];
  Scheduler::AddDependency(task, stream.last);
  if (stream.legacy) {
    for (const Stream* other : device.streams) {
      if (other->Blocking()) Scheduler::AddDependency(task, other->last);
    }
    for (const Orphan& orphan : device.orphans) {
      if (orphan.blocking) Scheduler::AddDependency(task, orphan.task);
    }
  } else if (stream.Blocking()) {
    Scheduler::AddDependency(task, device.legacy->last);
  }
}

void EngineImpl::AddOwnWork(const TaskPtr& task, const Stream& stream) {
  if (stream.legacy) {
    AddStreamDependencies(task, stream);
  } else {
    Scheduler::AddDependency(task, stream.last);
  }
}

void EngineImpl::AddDeviceDependencies(const TaskPtr& task, int device_index) {
  const Device& device = devices_[device_index];
  Scheduler::AddDependency(task, device.legacy->last);
  for (const Stream* stream : device.streams) Scheduler::AddDependency(task, stream->last);
  for (const Orphan& orphan : device.orphans) Scheduler::AddDependency(task, orphan.task);
}

bool EngineImpl::Unfinished(const Stream& stream, TaskPtr* only) {
  const Device& device = devices_[stream.device];
  bool several = false;
  const auto look = [&](const TaskPtr& task) {
    if (task == nullptr || task->done || task == *only) return;
    if (*only != nullptr) several = true;
    *only = task;
  };
  look(stream.last);
  if (stream.legacy) {
    for (const Stream* other : device.streams) {
      if (other->Blocking()) look(other->last);
    }
    for (const Orphan& orphan : device.orphans) {
      if (orphan.blocking) look(orphan.task);
    }
  } else if (stream.Blocking()) {
    look(device.legacy->last);
  }
  return several;
}

void EngineImpl::SubmitOn(Stream* stream, const TaskPtr& task) {
  AddStreamDependencies(task, *stream);
  stream->last = task;
  task->device = stream->device;
  task->priority = stream->priority;
  if (Scheduler::PassesQueue(*task)) {
    // A stream keeps its queue while it has work there.
    const bool keep = stream->last_queued != nullptr && stream->last_queued->queued;
    task->queue = keep ? stream->last_queued->queue : scheduler_->ChooseQueue(stream->device);
    stream->last_queued = task;
  }
  scheduler_->Submit(task);
}

template <typename AddDependencies>
void EngineImpl::AwaitDependencies(AddDependencies add_dependencies) {
  const auto wait = std::make_shared<Task>(TaskKind::kHostWait);
  {
    Scheduler::Section section(*scheduler_);
    scheduler_->CatchUp();
    add_dependencies(wait);
    if (wait->pending == 0) return;
    scheduler_->Submit(wait);
  }
  Scheduler::Await(wait);
}

int EngineImpl::Launched(const TaskPtr& task) {
  if (!options_->launch_blocking) return kSuccess;
  AwaitDependencies([&](const TaskPtr& wait) { Scheduler::AddDependency(wait, task); });
  return kSuccess;
}

// --- Streams ---

int EngineImpl::CreateStream(unsigned flags, int priority, void** handle) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  if (handle == nullptr || (flags & ~kStreamNonBlocking) != 0) return kInvalidValue;
  Scheduler::Section section(*scheduler_);
  *handle = NewStream(device, flags, priority);
  return kSuccess;
}

int EngineImpl::DestroyStream(void* handle) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  if (live_streams_.count(handle) == 0) return kInvalidHandle;
  auto* stream = static_cast<Stream*>(handle);
  for (const auto& [thread, own] : devices_[stream->device].per_thread) {
    if (own == stream) return kInvalidHandle;  // no caller has this as a handle
  }
  RetireStream(stream);
  return kSuccess;
}

int EngineImpl::DescribeStream(void* handle, StreamInfo* info) {
  if (const int status = Prepare(handle)) return status;
  Scheduler::Section section(*scheduler_);
  const Stream* stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  *info = {stream->device, stream->flags, stream->priority, stream->id};
  return kSuccess;
}

int EngineImpl::UpdateStream(void* handle, const std::function<void(StreamAttributes*)>& update) {
  if (const int status = Prepare(handle)) return status;
  Scheduler::Section section(*scheduler_);
  Stream* stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->attributes.priority = stream->priority;
  update(&stream->attributes);
  stream->priority = std::clamp(stream->attributes.priority, kGreatestPriority, 0);
  return kSuccess;
}

int EngineImpl::SynchronizeStream(void* handle) {
  const WaitName name("stream");
  if (const int status = Prepare(handle)) return status;
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  int status = kSuccess;
  AwaitDependencies([&](const TaskPtr& wait) {
    const Stream* stream = Resolve(handle);
    status = stream == nullptr ? kInvalidHandle : graphs_->CheckNotCapturing(*stream);
    if (status == kSuccess) AddOwnWork(wait, *stream);
  });
  AfterSynchronisation();
  return status;
}

int EngineImpl::QueryStream(void* handle) {
  if (const int status = Prepare(handle)) return status;
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  Scheduler::Section section(*scheduler_);
  const Stream* stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (const int status = graphs_->CheckNotCapturing(*stream)) return status;
  scheduler_->CatchUp();
  if (!stream->legacy) return stream->last == nullptr || stream->last->done ? kSuccess : kNotReady;
  TaskPtr unfinished;
  Unfinished(*stream, &unfinished);
  return unfinished == nullptr ? kSuccess : kNotReady;
}

int EngineImpl::SynchronizeDevice(int device) {
  if (!Ready()) return Initialize();
  const WaitName name("device");
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  {
    Scheduler::Section section(*scheduler_);
    if (const int status = graphs_->CheckDevice(device)) return status;
  }
  AwaitDevice(device);
  AfterSynchronisation();
  return kSuccess;
}

void EngineImpl::AwaitDevice(int device) {
  AwaitDependencies([&](const TaskPtr& wait) { AddDeviceDependencies(wait, device); });
}

int EngineImpl::WaitEvent(void* stream_handle, void* event_handle) {
  if (const int status = Prepare(stream_handle)) return status;
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(stream_handle);
  if (stream == nullptr || live_events_.count(event_handle) == 0) return kInvalidHandle;
  int captured = kSuccess;
  if (graphs_->CaptureWait(stream, *static_cast<Event*>(event_handle), &captured)) return captured;
  // Uses the event's present record: a later record does not change this wait.
  const auto* event = static_cast<Event*>(event_handle);
  if (event->shared != nullptr && event->shared->Recorded() != event->own_sequence) {
    // Another process made the latest record.
    const uint64_t sequence = event->shared->Recorded();
    if (event->shared->IsDone(sequence)) return kSuccess;
    const auto wait = std::make_shared<Task>(TaskKind::kForeignWait);
    wait->satisfied = [shared = event->shared, sequence] { return shared->IsDone(sequence); };
    SubmitOn(stream, wait);
    return kSuccess;
  }
  const TaskPtr record = event->record;
  if (record == nullptr || record->done) return kSuccess;
  const auto marker = std::make_shared<Task>(TaskKind::kMarker);
  Scheduler::AddDependency(marker, record);
  SubmitOn(stream, marker);
  return kSuccess;
}

// --- Events ---

int EngineImpl::CreateEvent(unsigned flags, void** handle) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  if (handle == nullptr || (flags & ~7u) != 0) return kInvalidValue;
  std::shared_ptr<SharedEvent> shared;
  if ((flags & kEventInterprocess) != 0) {
    if ((flags & kEventDisableTiming) == 0) return kInvalidValue;
    shared = SharedEvent::Create();
    if (shared == nullptr) return kNotSupported;
  }
  auto* event = new Event;
  event->shared = std::move(shared);
  event->device = device;
  event->flags = flags;
  Scheduler::Section section(*scheduler_);
  live_events_.insert(event);
  *handle = event;
  return kSuccess;
}

int EngineImpl::DestroyEvent(void* handle) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  if (live_events_.erase(handle) == 0) return kInvalidHandle;
  delete static_cast<Event*>(handle);
  return kSuccess;
}

int EngineImpl::RecordEvent(void* event_handle, void* stream_handle) {
  if (const int status = Prepare(stream_handle)) return status;
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(stream_handle);
  if (stream == nullptr || live_events_.count(event_handle) == 0) return kInvalidHandle;
  auto* event = static_cast<Event*>(event_handle);
  if (event->device != stream->device) return kInvalidHandle;
  int captured = kSuccess;
  if (graphs_->CaptureRecord(event, stream, &captured)) return captured;
  event->recorded = true;
  if (event->shared != nullptr) {
    PublishOn(stream, event);
    return kSuccess;
  }
  event->record = nullptr;
  TaskPtr only;
  if (Unfinished(*stream, &only)) {
    const auto marker = std::make_shared<Task>(TaskKind::kMarker);
    SubmitOn(stream, marker);
    event->record = marker;
  } else if (only != nullptr) {
    // One task precedes the record, so no marker is needed. On the legacy stream a record holds the
    // blocking streams back as any other work does.
    event->record = only;
    if (stream->legacy) stream->last = only;
  } else if ((event->flags & kEventDisableTiming) == 0) {
    event->time_ns = NowNs();
  }
  return kSuccess;
}

void EngineImpl::PublishOn(Stream* stream, Event* event) {
  const uint64_t sequence = event->shared->Record();
  event->own_sequence = sequence;
  const auto marker = std::make_shared<Task>(TaskKind::kMarker);
  marker->work = [shared = event->shared, sequence] { shared->Finish(sequence); };
  event->record = marker;
  SubmitOn(stream, marker);
}

int EngineImpl::QueryEvent(void* handle) {
  if (!Ready()) return Initialize();
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  Scheduler::Section section(*scheduler_);
  if (live_events_.count(handle) == 0) return kInvalidHandle;
  const auto* event = static_cast<Event*>(handle);
  if (const int status = graphs_->CheckEvent(*event)) return status;
  if (event->shared != nullptr) {
    scheduler_->CatchUp();
    return event->shared->IsDone(event->shared->Recorded()) ? kSuccess : kNotReady;
  }
  const TaskPtr& record = event->record;
  if (record == nullptr || record->done) return kSuccess;
  scheduler_->CatchUp();
  return record->done ? kSuccess : kNotReady;
}

int EngineImpl::SynchronizeEvent(void* handle) {
  const WaitName name("event");
  if (!Ready()) return Initialize();
  if (const int status = graphs_->CheckUnsafeCall()) return status;
  int status = kSuccess;
  std::shared_ptr<SharedEvent> shared;
  AwaitDependencies([&](const TaskPtr& wait) {
    const auto* event = static_cast<Event*>(handle);
    status = live_events_.count(handle) == 0 ? kInvalidHandle : graphs_->CheckEvent(*event);
    if (status != kSuccess) return;
    if (event->shared != nullptr && event->shared->Recorded() != event->own_sequence) {
      shared = event->shared;
    } else {
      Scheduler::AddDependency(wait, event->record);
    }
  });
  if (shared != nullptr) shared->Await(shared->Recorded());
  AfterSynchronisation();
  return status;
}

int EngineImpl::ElapsedTime(void* start_handle, void* end_handle, float* milliseconds) {
  if (!Ready()) return Initialize();
  if (milliseconds == nullptr) return kInvalidValue;
  Scheduler::Section section(*scheduler_);
  scheduler_->CatchUp();
  int64_t times_ns[2];
  int i = 0;
  for (void* handle : {start_handle, end_handle}) {
    if (live_events_.count(handle) == 0) return kInvalidHandle;
    const auto* event = static_cast<Event*>(handle);
    if (const int status = graphs_->CheckEvent(*event)) return status;
    if (!event->recorded || (event->flags & kEventDisableTiming) != 0) return kInvalidHandle;
    if (event->record != nullptr && !event->record->done) return kNotReady;
    times_ns[i++] = event->record != nullptr ? event->record->done_ns : event->time_ns;
  }
  *milliseconds = static_cast<float>(static_cast<double>(times_ns[1] - times_ns[0]) / 1e6);
  return kSuccess;
}

// --- Work ---

void EngineImpl::Enqueue(EnqueueRequest request) {
  if (!Ready()) return;
  const auto task = std::make_shared<Task>(TaskKind::kDeviceOp);
  {
    Scheduler::Section section(*scheduler_);
    std::vector<Stream*> streams;
    for (Stream* stream : request.streams) {
      if (std::find(streams.begin(), streams.end(), stream) != streams.end()) continue;
      if (IsLive(stream) && stream->capture == nullptr) streams.push_back(stream);
    }
    if (streams.empty()) return;
    task->op = std::move(request.op);
    task->sms = request.sms;
    if (request.after != nullptr) {
      Scheduler::AddDependency(task, scheduler_->FindOp(request.after.get()));
    }
    if (request.in_launch_order) {
      TaskPtr& last_launch = devices_[streams[0]->device].last_launch;
      Scheduler::AddDependency(task, last_launch);
      last_launch = task->at_start = std::make_shared<Task>(TaskKind::kMarker);
    }
    // It is launched on the first stream; the others are joined before and after it.
    for (size_t i = 1; i < streams.size(); ++i) AddStreamDependencies(task, *streams[i]);
    SubmitOn(streams[0], task);
    for (size_t i = 1; i < streams.size(); ++i) streams[i]->last = task;
  }
  Launched(task);
}

void EngineImpl::WaitDone(const std::vector<std::shared_ptr<DeviceOp>>& ops) {
  const WaitName name("operations");
  if (!Ready()) return;
  AwaitDependencies([&](const TaskPtr& wait) {
    for (const auto& op : ops) Scheduler::AddDependency(wait, scheduler_->FindOp(op.get()));
  });
}

int EngineImpl::LaunchKernel(void* handle, int64_t sms, int64_t duration_ns, const void* function) {
  const int device = CurrentDevice();
  if (device < 0) return Initialize();
  const auto task = std::make_shared<Task>(TaskKind::kTimedKernel);
  task->sms = static_cast<int>(std::min<int64_t>(sms, options_->sms));
  task->duration_ns = duration_ns;
  bool load = false;
  if (options_->lazy_loading) {
    Scheduler::Section section(*scheduler_);
    load = loaded_.insert(function).second;
  }
  if (load) AwaitDevice(device);
  {
    Scheduler::Section section(*scheduler_);
    Stream* const stream = Resolve(handle);
    if (stream == nullptr || stream->device != device) return kInvalidHandle;
    if (const int status = graphs_->CheckNotCapturing(*stream)) return status;
    SubmitOn(stream, task);
  }
  return Launched(task);
}

int EngineImpl::LaunchHostFunction(void* handle, std::function<void()> function) {
  if (const int status = Prepare(handle)) return status;
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  // Captures take host functions elsewhere; those that get here cannot be captured.
  if (const int status = graphs_->CheckNotCapturing(*stream)) return status;
  const auto task = std::make_shared<Task>(TaskKind::kHostFunction);
  task->work = std::move(function);
  SubmitOn(stream, task);
  return kSuccess;
}

}  // namespace gordian::emu
