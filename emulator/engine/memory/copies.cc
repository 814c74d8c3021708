// Copies and fills: in stream order, with CUDA's rules for when the host waits.
#include "emulator/engine/memory/copies.h"

#include <cstring>
#include <utility>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

constexpr size_t kStagingBytes = 2 << 20;

bool OnDevice(const Allocation& allocation) {
  return allocation.kind == MemoryKind::kDevice || allocation.kind == MemoryKind::kManaged;
}

// Bytes from the first to the last touched.
size_t Extent(size_t pitch, size_t width, size_t height) { return (height - 1) * pitch + width; }

void CopyRows(const CopyRequest& copy, const void* from, size_t from_pitch) {
  auto* to = static_cast<char*>(copy.to);
  const auto* source = static_cast<const char*>(from);
  for (size_t row = 0; row < copy.height; ++row) {
    memmove(to + row * copy.to_pitch, source + row * from_pitch, copy.width);
  }
}

}  // namespace

// Copies within a device are kernels, as fills are; all others are done by copy engines.
bool UsesCopyEngine(const Allocation* from, const Allocation* to) {
  return from == nullptr || to == nullptr || !OnDevice(*from) || !OnDevice(*to) ||
         from->device != to->device;
}

void FillRows(const FillRequest& fill) {
  for (size_t row = 0; row < fill.height; ++row) {
    char* to = static_cast<char*>(fill.to) + row * fill.pitch;
    if (fill.element_bytes == 1) {
      memset(to, static_cast<int>(fill.value & 0xff), fill.width);
      continue;
    }
    for (size_t i = 0; i < fill.width; ++i, to += fill.element_bytes) {
      memcpy(to, &fill.value, fill.element_bytes);
    }
  }
}

// The calling thread does the work itself if the stream is idle and a queue is free: a program
// cannot notice that, and no thread needs to wake.
int EngineImpl::RunInOrder(void* handle, TaskKind kind, bool wait,
                           const std::function<void()>& work,
                           const std::function<std::function<void()>()>& make_deferred) {
  const WaitName name("copy");
  const auto task = std::make_shared<Task>(kind);
  const auto host_wait = wait ? std::make_shared<Task>(TaskKind::kHostWait) : nullptr;
  bool idle = false;
  {
    Scheduler::Section section(*scheduler_);
    Stream* const stream = Resolve(handle);
    if (stream == nullptr) return kInvalidHandle;
    scheduler_->CatchUp();
    TaskPtr unfinished;
    Unfinished(*stream, &unfinished);
    idle = unfinished == nullptr &&
           (!Scheduler::PassesQueue(*task) || scheduler_->HasFreeQueue(stream->device));
    if (!idle) {
      task->work = make_deferred();
      SubmitOn(stream, task);
      if (wait) {
        Scheduler::AddDependency(host_wait, task);
        scheduler_->Submit(host_wait);
      }
    }
  }
  if (idle) {
    work();
  } else if (wait) {
    Scheduler::Await(host_wait);
  }
  return kSuccess;
}

int EngineImpl::Copy(const CopyRequest& copy, void* stream) {
  if (const int status = Prepare(stream)) return status;
  if (copy.height > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width)) {
    return kInvalidValue;
  }
  if (copy.width == 0 || copy.height == 0) return kSuccess;
  if (copy.to == nullptr || copy.from == nullptr) return kInvalidValue;

  Allocation to;
  Allocation from;
  const size_t to_extent = Extent(copy.to_pitch, copy.width, copy.height);
  const size_t from_extent = Extent(copy.from_pitch, copy.width, copy.height);
  const bool to_known = memory_->Find(copy.to, 0, &to);
  const bool from_known = memory_->Find(copy.from, 0, &from);
  // A range that begins in known memory must end in it.
  if (to_known && !memory_->Find(copy.to, to_extent, &to)) return kInvalidValue;
  if (from_known && !memory_->Find(copy.from, from_extent, &from)) return kInvalidValue;
  const bool to_must_be_device =
      copy.kind == CopyKind::kHostToDevice || copy.kind == CopyKind::kDeviceToDevice;
  const bool from_must_be_device =
      copy.kind == CopyKind::kDeviceToHost || copy.kind == CopyKind::kDeviceToDevice;
  if ((to_must_be_device && !to_known) || (from_must_be_device && !from_known)) {
    return kInvalidValue;
  }

  int captured = kSuccess;
  if (graphs_->CaptureCopy(stream, copy, &captured)) return captured;
  if (copy.synchronous) {
    if (const int status = graphs_->CheckUnsafeCall()) return status;
  }

  // The host never waits for a copy between devices, and always for one to pageable memory. A
  // pageable source may be reused after the call, so a busy stream's is staged first. The driver
  // has between 2 and 4 MiB for that; when they are full, the host waits.
  const bool between_devices = to_known && from_known && OnDevice(to) && OnDevice(from);
  const bool between_hosts = !(to_known && OnDevice(to)) && !(from_known && OnDevice(from));
  const size_t bytes = copy.width * copy.height;
  const bool synchronises =
      (to_known && to.synchronises) || (from_known && from.synchronises) || !between_devices;
  bool wait = copy.synchronous ? synchronises : (!to_known || between_hosts);
  if (!from_known && staged_bytes_.load() + bytes > kStagingBytes) wait = true;
  const bool stage = !wait && !from_known;
  const TaskKind kind = UsesCopyEngine(from_known ? &from : nullptr, to_known ? &to : nullptr)
                            ? TaskKind::kCopy
                            : TaskKind::kFill;
  const auto work = [copy] { CopyRows(copy, copy.from, copy.from_pitch); };
  return RunInOrder(stream, kind, wait, work, [&]() -> std::function<void()> {
    if (!stage) return work;
    staged_bytes_ += bytes;
    auto staged = std::make_shared<std::vector<char>>(bytes);
    for (size_t row = 0; row < copy.height; ++row) {
      memcpy(staged->data() + row * copy.width,
             static_cast<const char*>(copy.from) + row * copy.from_pitch, copy.width);
    }
    return [this, copy, staged] {
      CopyRows(copy, staged->data(), copy.width);
      staged_bytes_ -= staged->size();
    };
  });
}

int EngineImpl::Fill(const FillRequest& fill, void* stream) {
  if (const int status = Prepare(stream)) return status;
  const size_t row_bytes = fill.width * fill.element_bytes;
  if (fill.height > 1 && fill.pitch < row_bytes) return kInvalidValue;
  if (row_bytes == 0 || fill.height == 0) return kSuccess;
  Allocation to;
  if (fill.to == nullptr || reinterpret_cast<uintptr_t>(fill.to) % fill.element_bytes != 0 ||
      !memory_->Find(fill.to, Extent(fill.pitch, row_bytes, fill.height), &to)) {
    return kInvalidValue;
  }
  int captured = kSuccess;
  if (graphs_->CaptureFill(stream, fill, &captured)) return captured;
  const bool wait = fill.synchronous && (to.kind != MemoryKind::kDevice || to.synchronises);
  const auto work = [fill] { FillRows(fill); };
  return RunInOrder(stream, TaskKind::kFill, wait, work,
                    [&]() -> std::function<void()> { return work; });
}

}  // namespace gordian::emu
