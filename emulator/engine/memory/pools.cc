// Memory pools: stream-ordered allocation, the cache of freed memory, and who may reuse it.
//
// A freed piece stays in its pool's cache. Its own stream may reuse it at once; other streams when
// the work before the free is done; and if no other piece is left, an allocation waits in its
// stream for that work. Synchronising with a device gives back what exceeds the release threshold.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

constexpr size_t kGranularity = 512;
constexpr size_t kPage = 4096;
constexpr uint32_t kPoolMagic = 0x70'6f'6f'6c;
constexpr uint32_t kPieceMagic = 0x70'69'65'63;

// The first page of a shareable pool's memfd.
struct PoolHeader {
  uint32_t magic;
  int32_t physical_device;
  uint64_t id;
};

struct PieceHandle {
  uint32_t magic;
  uint32_t unused;
  uint64_t pool_id;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(PieceHandle) <= kIpcHandleBytes);

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool ReadHeader(int fd, PoolHeader* header) {
  return pread(fd, header, sizeof(*header), 0) == sizeof(*header) && header->magic == kPoolMagic;
}

void AddUsed(MemoryPool* pool, size_t bytes) {
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
}

}  // namespace

// --- Pools ---

MemoryPool* EngineImpl::FindPool(void* pool) {
  return live_pools_.count(pool) != 0 ? static_cast<MemoryPool*>(pool) : nullptr;
}

MemoryPool* EngineImpl::NewPool(int device) {
  auto* pool = new MemoryPool;
  pool->device = device;
  live_pools_.insert(pool);
  pools_used_.store(true);
  return pool;
}

MemoryPool* EngineImpl::DefaultPoolLocked(int device) {
  MemoryPool*& pool = devices_[device].default_pool;
  if (pool == nullptr) {
    pool = NewPool(device);
    pool->is_default = true;
    pool->heap = std::make_unique<SharedHeap>("gordian-emu-default-pool");
  }
  return pool;
}

int EngineImpl::CreatePool(const PoolProperties& properties, void** out) {
  if (!Ready()) return Initialize();
  if (out == nullptr) return kInvalidValue;
  if (properties.device < 0 || properties.device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = NewPool(properties.device);
  pool->shareable = properties.shareable;
  pool->max_bytes = properties.max_bytes;
  pool->heap = std::make_unique<SharedHeap>("gordian-emu-pool",
                                            properties.shareable ? sizeof(PoolHeader) : 0);
  *out = pool;
  return kSuccess;
}

int EngineImpl::DestroyPool(void* handle) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr || pool->is_default || pool->destroyed) return kInvalidValue;
  for (Device& device : devices_) {
    if (device.current_pool == pool) device.current_pool = nullptr;
  }
  pool->destroyed = true;
  if (pool->live.empty()) DropPool(pool);
  return kSuccess;
}

// Work enqueued before their frees may still use cached pieces: those stay mapped.
void EngineImpl::DropPool(MemoryPool* pool) {
  ReleaseCached(pool, 0);
  memory_->Unreserve(pool->reserved, pool->device);
  if (pool->imported_fd >= 0) close(pool->imported_fd);
  live_pools_.erase(pool);
  delete pool;
}

int EngineImpl::DefaultPool(int device, void** pool) {
  if (!Ready()) return Initialize();
  if (device < 0 || device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  *pool = DefaultPoolLocked(device);
  return kSuccess;
}

int EngineImpl::CurrentPool(int device, void** pool) {
  if (!Ready()) return Initialize();
  if (device < 0 || device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  MemoryPool* const current = devices_[device].current_pool;
  *pool = current != nullptr ? current : DefaultPoolLocked(device);
  return kSuccess;
}

int EngineImpl::SetCurrentPool(int device, void* handle) {
  if (!Ready()) return Initialize();
  if (device < 0 || device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  // The pool's memory must be local to the device; an imported pool gives none.
  if (pool == nullptr || pool->destroyed || pool->device != device || pool->imported_fd >= 0) {
    return kInvalidValue;
  }
  devices_[device].current_pool = pool;
  return kSuccess;
}

int EngineImpl::GetPoolAttribute(void* handle, PoolAttribute attribute, uint64_t* value) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  const MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr || value == nullptr) return kInvalidValue;
  switch (attribute) {
    case PoolAttribute::kFollowEventDependencies:
      *value = pool->follow_event_dependencies ? 1 : 0;
      return kSuccess;
    case PoolAttribute::kAllowOpportunistic:
      *value = pool->allow_opportunistic ? 1 : 0;
      return kSuccess;
    case PoolAttribute::kAllowInternalDependencies:
      *value = pool->allow_internal_dependencies ? 1 : 0;
      return kSuccess;
    case PoolAttribute::kReleaseThreshold:
      *value = pool->release_threshold;
      return kSuccess;
    case PoolAttribute::kReservedCurrent:
      *value = pool->reserved;
      return kSuccess;
    case PoolAttribute::kReservedHigh:
      *value = pool->reserved_high;
      return kSuccess;
    case PoolAttribute::kUsedCurrent:
      *value = pool->used;
      return kSuccess;
    case PoolAttribute::kUsedHigh:
      *value = pool->used_high;
      return kSuccess;
  }
  return kInvalidValue;
}

int EngineImpl::SetPoolAttribute(void* handle, PoolAttribute attribute, uint64_t value) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr) return kInvalidValue;
  switch (attribute) {
    case PoolAttribute::kFollowEventDependencies:
      pool->follow_event_dependencies = value != 0;
      return kSuccess;
    case PoolAttribute::kAllowOpportunistic:
      pool->allow_opportunistic = value != 0;
      return kSuccess;
    case PoolAttribute::kAllowInternalDependencies:
      pool->allow_internal_dependencies = value != 0;
      return kSuccess;
    case PoolAttribute::kReleaseThreshold:
      pool->release_threshold = value;
      return kSuccess;
    case PoolAttribute::kReservedHigh:  // can only be reset
      if (value != 0) return kInvalidValue;
      pool->reserved_high = pool->reserved;
      return kSuccess;
    case PoolAttribute::kUsedHigh:
      if (value != 0) return kInvalidValue;
      pool->used_high = pool->used;
      return kSuccess;
    case PoolAttribute::kReservedCurrent:
    case PoolAttribute::kUsedCurrent:
      return kInvalidValue;
  }
  return kInvalidValue;
}

int EngineImpl::TrimPool(void* handle, size_t keep_bytes) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr) return kInvalidValue;
  scheduler_->CatchUp();
  ReleaseCached(pool, keep_bytes);
  return kSuccess;
}

int EngineImpl::SetPoolAccess(void* handle, int device, unsigned flags) {
  if (!Ready()) return Initialize();
  if (device < 0 || device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr || (flags != 0 && flags != 1 && flags != 3)) return kInvalidValue;
  // A device keeps access to its own memory.
  if (device == pool->device) return flags == 3 ? kSuccess : kInvalidValue;
  pool->access[device] = flags;
  return kSuccess;
}

int EngineImpl::GetPoolAccess(void* handle, int device, unsigned* flags) {
  if (!Ready()) return Initialize();
  if (device < 0 || device >= DeviceCount()) return kInvalidDevice;
  Scheduler::Section section(*scheduler_);
  const MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr || flags == nullptr) return kInvalidValue;
  const auto at = pool->access.find(device);
  *flags = device == pool->device ? 3 : at == pool->access.end() ? 0 : at->second;
  return kSuccess;
}

// --- Allocation ---

void EngineImpl::ReleaseCached(MemoryPool* pool, size_t keep_bytes) {
  for (auto at = pool->cached.begin(); at != pool->cached.end() && pool->reserved > keep_bytes;) {
    const MemoryPool::Piece& piece = at->second;
    if (piece.freed != nullptr && !piece.freed->done) {
      ++at;
      continue;
    }
    pool->heap->Free(piece.block, piece.bytes);
    pool->reserved -= piece.bytes;
    memory_->Unreserve(piece.bytes, pool->device);
    at = pool->cached.erase(at);
  }
}

void EngineImpl::AfterSynchronisation() {
  if (!pools_used_.load(std::memory_order_relaxed)) return;
  Scheduler::Section section(*scheduler_);
  for (void* handle : live_pools_) {
    auto* pool = static_cast<MemoryPool*>(handle);
    if (pool->reserved > pool->release_threshold) ReleaseCached(pool, pool->release_threshold);
  }
}

bool EngineImpl::AllocateFromPool(MemoryPool* pool, size_t bytes, Stream* stream,
                                  MemoryPool::Piece* piece) {
  const auto take = [&](std::multimap<size_t, MemoryPool::Piece>::iterator at) {
    *piece = at->second;
    pool->cached.erase(at);
    return true;
  };
  const auto done = [](const MemoryPool::Piece& cached) {
    return cached.freed == nullptr || cached.freed->done;
  };
  // Keeps a much too large piece for an allocation that fits it.
  const auto end = pool->cached.upper_bound(bytes + bytes / 8);
  for (auto at = pool->cached.lower_bound(bytes); at != end; ++at) {
    if (at->second.stream_id == stream->id) return take(at);
  }
  if (pool->allow_opportunistic) {
    scheduler_->CatchUp();
    for (auto at = pool->cached.lower_bound(bytes); at != end; ++at) {
      if (done(at->second)) return take(at);
    }
  }
  const bool fits = pool->max_bytes == 0 || pool->reserved + bytes <= pool->max_bytes;
  if (fits && memory_->Reserve(bytes, pool->device)) {
    if (pool->heap->Allocate(bytes, &piece->block)) {
      piece->bytes = bytes;
      pool->reserved += bytes;
      pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
      return true;
    }
    memory_->Unreserve(bytes, pool->device);
  }
  if (pool->allow_internal_dependencies) {
    const auto at = pool->cached.lower_bound(bytes);
    if (at != pool->cached.end()) {
      const auto marker = std::make_shared<Task>(TaskKind::kMarker);
      Scheduler::AddDependency(marker, at->second.freed);
      SubmitOn(stream, marker);
      return take(at);
    }
  }
  return false;
}

int EngineImpl::AllocateInStreamOrder(size_t bytes, void* pool_handle, void* stream_handle,
                                      void** pointer) {
  if (const int status = Prepare(stream_handle)) return status;
  if (pointer == nullptr) return kInvalidValue;
  *pointer = nullptr;
  int captured = kSuccess;
  if (graphs_->CaptureAllocate(stream_handle, bytes, pointer, &captured)) return captured;
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(stream_handle);
  if (stream == nullptr) return kInvalidHandle;
  MemoryPool* pool =
      pool_handle != nullptr ? FindPool(pool_handle) : devices_[stream->device].current_pool;
  if (pool_handle == nullptr && pool == nullptr) pool = DefaultPoolLocked(stream->device);
  if (pool == nullptr || pool->destroyed || pool->imported_fd >= 0) return kInvalidValue;
  if (bytes == 0) return kSuccess;
  if (bytes > memory_->limit_bytes()) return kOutOfMemory;
  MemoryPool::Piece piece;
  const size_t rounded = RoundUp(bytes, bytes >= SharedHeap::kLargeBytes ? kPage : kGranularity);
  if (!AllocateFromPool(pool, rounded, stream, &piece)) return kOutOfMemory;
  piece.asked_bytes = bytes;
  piece.freed = nullptr;
  AddUsed(pool, piece.bytes);
  Allocation allocation;
  allocation.base = reinterpret_cast<uintptr_t>(piece.block.address);
  allocation.bytes = bytes;
  allocation.device = pool->device;
  allocation.origin = MemoryOrigin::kPool;
  allocation.pool = pool;
  memory_->Insert(allocation);
  *pointer = piece.block.address;
  pool->live.emplace(piece.block.address, std::move(piece));
  return kSuccess;
}

void EngineImpl::FreeToPool(void* pointer, MemoryPool* pool, Stream* stream, const TaskPtr& after) {
  const auto at = pool->live.find(pointer);
  if (at == pool->live.end()) return;
  MemoryPool::Piece piece = std::move(at->second);
  pool->live.erase(at);
  if (pool->imported_fd >= 0) {
    // It returns to its own pool when its process frees it; the mapping here stays until then,
    // because earlier work may use it.
    if (stream == nullptr && (after == nullptr || after->done)) {
      const size_t skipped = piece.block.offset % kPage;
      munmap(static_cast<char*>(pointer) - skipped, skipped + piece.bytes);
    }
  } else {
    pool->used -= piece.bytes;
    if (stream != nullptr) {
      piece.stream_id = stream->id;
      TaskPtr only;
      if (Unfinished(*stream, &only)) {
        only = std::make_shared<Task>(TaskKind::kMarker);
        SubmitOn(stream, only);
      }
      piece.freed = only;
    } else {
      piece.freed = after;
    }
    pool->cached.emplace(piece.bytes, std::move(piece));
  }
  if (pool->destroyed && pool->live.empty()) DropPool(pool);
}

int EngineImpl::FreeInStreamOrder(void* pointer, void* stream_handle) {
  if (const int status = Prepare(stream_handle)) return status;
  if (pointer == nullptr) return kSuccess;
  int captured = kSuccess;
  if (graphs_->CaptureFree(stream_handle, pointer, &captured)) return captured;
  if (graphs_->memory().Find(pointer) != nullptr) {
    std::shared_ptr<GraphAllocation> memory = graphs_->memory().End(pointer);
    if (memory == nullptr) return kInvalidValue;
    const auto end = [memory] {};  // keeps the address until the device gets there
    return RunInOrder(stream_handle, TaskKind::kCopy, false, end,
                      [&]() -> std::function<void()> { return end; });
  }
  Allocation found;
  if (!memory_->FindBase(pointer, &found) ||
      (found.kind != MemoryKind::kDevice && found.kind != MemoryKind::kManaged) ||
      found.origin == MemoryOrigin::kIpc || found.origin == MemoryOrigin::kVirtual) {
    return kInvalidValue;
  }
  if (found.origin != MemoryOrigin::kPool) {
    const auto work = [this, pointer] { memory_->Release(pointer); };
    return RunInOrder(stream_handle, TaskKind::kCopy, false, work,
                      [&]() -> std::function<void()> { return work; });
  }
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(stream_handle);
  if (stream == nullptr) return kInvalidHandle;
  MemoryPool* const pool = FindPool(found.pool);
  if (pool == nullptr || !memory_->Release(pointer)) return kInvalidValue;
  FreeToPool(pointer, pool, stream);
  return kSuccess;
}

void EngineImpl::ResetPools(int device_index) {
  Scheduler::Section section(*scheduler_);
  Device& device = devices_[device_index];
  device.default_pool = nullptr;
  device.current_pool = nullptr;
  const std::unordered_set<void*> pools = live_pools_;
  for (void* handle : pools) {
    auto* pool = static_cast<MemoryPool*>(handle);
    if (pool->device != device_index) continue;
    for (auto& [pointer, piece] : pool->live) {
      memory_->Release(pointer);
      if (pool->imported_fd < 0) pool->cached.emplace(piece.bytes, piece);
    }
    pool->live.clear();
    DropPool(pool);
  }
}

// --- Sharing ---

int EngineImpl::ExportPool(void* handle, int* fd) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(handle);
  if (pool == nullptr || fd == nullptr || !pool->shareable || pool->imported_fd >= 0) {
    return kInvalidValue;
  }
  const int file = pool->heap->fd();
  if (file < 0) return kNotSupported;
  const PoolHeader header{kPoolMagic, options_->devices[pool->device],
                          reinterpret_cast<uintptr_t>(pool)};
  if (pwrite(file, &header, sizeof(header), 0) != sizeof(header)) return kNotSupported;
  *fd = fcntl(file, F_DUPFD_CLOEXEC, 0);
  return *fd >= 0 ? kSuccess : kNotSupported;
}

int EngineImpl::ImportPool(int fd, void** out) {
  if (!Ready()) return Initialize();
  PoolHeader header;
  if (out == nullptr || !ReadHeader(fd, &header)) return kInvalidValue;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return kInvalidValue;
  const int device = VisibleDevice(header.physical_device);
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = NewPool(device);
  pool->imported_fd = own;
  *out = pool;
  return kSuccess;
}

int EngineImpl::ExportPoolPointer(void* pointer, char data[kIpcHandleBytes]) {
  if (!Ready()) return Initialize();
  Scheduler::Section section(*scheduler_);
  Allocation found;
  if (!memory_->FindBase(pointer, &found) || found.origin != MemoryOrigin::kPool) {
    return kInvalidValue;
  }
  const MemoryPool* const pool = FindPool(found.pool);
  if (pool == nullptr || !pool->shareable) return kInvalidValue;
  const PieceHandle handle{kPieceMagic, 0, reinterpret_cast<uintptr_t>(pool),
                           pool->live.at(pointer).block.offset, found.bytes};
  memset(data, 0, kIpcHandleBytes);
  memcpy(data, &handle, sizeof(handle));
  return kSuccess;
}

int EngineImpl::ImportPoolPointer(void* pool_handle, const char data[kIpcHandleBytes],
                                  void** pointer) {
  if (!Ready()) return Initialize();
  PieceHandle handle;
  memcpy(&handle, data, sizeof(handle));
  Scheduler::Section section(*scheduler_);
  MemoryPool* const pool = FindPool(pool_handle);
  PoolHeader header;
  if (pointer == nullptr || pool == nullptr || pool->imported_fd < 0 ||
      handle.magic != kPieceMagic || !ReadHeader(pool->imported_fd, &header) ||
      header.id != handle.pool_id) {
    return kInvalidValue;
  }
  // Small pieces share pages with others.
  const size_t skipped = handle.offset % kPage;
  void* const mapping = mmap(nullptr, skipped + handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             pool->imported_fd, static_cast<off_t>(handle.offset - skipped));
  if (mapping == MAP_FAILED) return kMapFailed;
  *pointer = static_cast<char*>(mapping) + skipped;
  MemoryPool::Piece piece;
  piece.block = {*pointer, handle.offset};
  piece.bytes = handle.bytes;
  pool->live.emplace(*pointer, piece);
  Allocation allocation;
  allocation.base = reinterpret_cast<uintptr_t>(*pointer);
  allocation.bytes = handle.bytes;
  allocation.device = pool->device;
  allocation.origin = MemoryOrigin::kPool;
  allocation.pool = pool;
  memory_->Insert(allocation);
  return kSuccess;
}

}  // namespace gordian::emu
