// Memory and events of other processes: a handle names a file descriptor of the process that made
// it, which another process of the same user opens through /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/process/peer_process.h"

namespace gordian::emu {
namespace {

constexpr uint32_t kMemoryMagic = 0x6d'65'6d'31;
constexpr uint32_t kEventMagic = 0x65'76'74'31;
constexpr size_t kPage = 4096;

struct IpcHandle {
  uint32_t magic;
  int32_t pid;
  int32_t fd;
  int32_t physical_device;
  uint64_t started;  // the process's start time: pids are reused
  uint64_t offset;
  uint64_t bytes;
  uint64_t id;
};
static_assert(sizeof(IpcHandle) <= kIpcHandleBytes);

IpcHandle NewHandle(uint32_t magic, int fd, int physical_device) {
  IpcHandle handle{};
  handle.magic = magic;
  handle.pid = getpid();
  handle.fd = fd;
  handle.physical_device = physical_device;
  handle.started = StartTimeOf(handle.pid);
  return handle;
}

void Write(const IpcHandle& handle, char out[kIpcHandleBytes]) {
  memset(out, 0, kIpcHandleBytes);
  memcpy(out, &handle, sizeof(handle));
}

// Opens the handle's descriptor here; -1 if its process is gone or not accessible.
int OpenDescriptor(const IpcHandle& handle) {
  if (StartTimeOf(handle.pid) != handle.started) return -1;
  return OpenDescriptorOf(handle.pid, handle.fd);
}

}  // namespace

// The visible device that is the machine's device `physical`, else the current one.
int EngineImpl::VisibleDevice(int physical) {
  for (size_t i = 0; i < options_->devices.size(); ++i) {
    if (options_->devices[i] == physical) return static_cast<int>(i);
  }
  return CurrentDevice();
}

int EngineImpl::ExportMemory(const void* pointer, char out[kIpcHandleBytes]) {
  if (!Ready()) return Initialize();
  Allocation found;
  if (pointer == nullptr || !memory_->Find(pointer, 0, &found) ||
      found.kind != MemoryKind::kDevice || found.origin != MemoryOrigin::kHeap) {
    return kInvalidValue;
  }
  const int fd = memory_->HeapFd(found.device);
  if (fd < 0) return kNotSupported;
  IpcHandle handle = NewHandle(kMemoryMagic, fd, options_->devices[found.device]);
  handle.offset = found.offset;
  handle.bytes = found.bytes;
  handle.id = found.id;
  Write(handle, out);
  return kSuccess;
}

bool EngineImpl::FindShared(const void* pointer, size_t bytes, int* fd, uint64_t* offset) {
  Allocation found;
  if (!Ready() || !memory_->Find(pointer, bytes, &found) || found.origin != MemoryOrigin::kHeap)
    return false;
  *fd = memory_->HeapFd(found.device);
  *offset = found.offset + (reinterpret_cast<uintptr_t>(pointer) - found.base);
  return *fd >= 0;
}

int EngineImpl::OpenMemory(const char in[kIpcHandleBytes], void** pointer) {
  const int current = CurrentDevice();
  if (current < 0) return Initialize();
  IpcHandle handle;
  memcpy(&handle, in, sizeof(handle));
  if (pointer == nullptr || handle.magic != kMemoryMagic) return kInvalidValue;
  if (handle.pid == getpid()) return kInvalidContext;  // not in the process that exported it
  std::lock_guard<std::mutex> lock(imports_mutex_);
  Import& import = imports_[std::string(in, kIpcHandleBytes)];
  if (import.opened == 0) {
    const int fd = OpenDescriptor(handle);
    const size_t skipped = handle.offset % kPage;
    import.mapped_bytes = skipped + handle.bytes;
    import.mapping = fd < 0 ? MAP_FAILED : mmap(nullptr, import.mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                   fd, static_cast<off_t>(handle.offset - skipped));
    if (fd >= 0) close(fd);
    if (import.mapping == MAP_FAILED) {
      imports_.erase(std::string(in, kIpcHandleBytes));
      return kMapFailed;
    }
    import.pointer = static_cast<char*>(import.mapping) + skipped;
    Allocation allocation;
    allocation.base = reinterpret_cast<uintptr_t>(import.pointer);
    allocation.bytes = handle.bytes;
    allocation.device = VisibleDevice(handle.physical_device);
    allocation.origin = MemoryOrigin::kIpc;
    memory_->Insert(allocation);
  }
  ++import.opened;
  *pointer = import.pointer;
  return kSuccess;
}

int EngineImpl::CloseMemory(void* pointer) {
  if (!Ready()) return Initialize();
  Allocation found;
  if (!memory_->FindBase(pointer, &found) || found.origin != MemoryOrigin::kIpc) {
    return kInvalidValue;
  }
  // Earlier work may still use it.
  SynchronizeDevice(found.device);
  std::lock_guard<std::mutex> lock(imports_mutex_);
  for (auto at = imports_.begin(); at != imports_.end(); ++at) {
    Import& import = at->second;
    if (import.pointer != pointer) continue;
    if (--import.opened == 0) {
      memory_->Release(pointer);
      munmap(import.mapping, import.mapped_bytes);
      imports_.erase(at);
    }
    return kSuccess;
  }
  return kInvalidValue;
}

int EngineImpl::ExportEvent(void* event_handle, char out[kIpcHandleBytes]) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  if (live_events_.count(event_handle) == 0) return kInvalidHandle;
  const auto* event = static_cast<Event*>(event_handle);
  if (event->shared == nullptr) return kInvalidHandle;
  Write(NewHandle(kEventMagic, event->shared->fd(), options_->devices[event->device]), out);
  return kSuccess;
}

int EngineImpl::OpenEvent(const char in[kIpcHandleBytes], void** event_handle) {
  const int current = CurrentDevice();
  if (current < 0) return Initialize();
  IpcHandle handle;
  memcpy(&handle, in, sizeof(handle));
  if (event_handle == nullptr || handle.magic != kEventMagic) return kInvalidValue;
  if (handle.pid == getpid()) return kInvalidContext;
  const int fd = OpenDescriptor(handle);
  std::shared_ptr<SharedEvent> shared = fd >= 0 ? SharedEvent::Map(fd) : nullptr;
  if (shared == nullptr) return kMapFailed;
  auto* event = new Event;
  event->device = VisibleDevice(handle.physical_device);
  event->flags = kEventDisableTiming | kEventInterprocess;
  event->shared = std::move(shared);
  Scheduler::Section section(*scheduler_);
  live_events_.insert(event);
  *event_handle = event;
  return kSuccess;
}

}  // namespace gordian::emu
