#include "emulator/engine/memory/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "emulator/engine/status.h"

namespace gordian::emu {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMapFrom = 128 << 10;

// Pools and cuMemCreate count theirs when they reserve it; another process counts its own.
bool CountsForDevice(const Allocation& allocation) {
  if (allocation.kind != MemoryKind::kDevice && allocation.kind != MemoryKind::kManaged) {
    return false;
  }
  return allocation.origin == MemoryOrigin::kHeap || allocation.origin == MemoryOrigin::kMapped ||
         allocation.origin == MemoryOrigin::kMalloc;
}

}  // namespace

MemoryTable::MemoryTable(int devices, size_t limit_bytes)
    : limit_bytes_(limit_bytes), used_bytes_(devices, 0) {
  for (int i = 0; i < devices; ++i) {
    heaps_.push_back(std::make_unique<SharedHeap>("gordian-emu-memory"));
  }
}

void* MemoryTable::Allocate(size_t bytes, MemoryKind kind, int device, unsigned flags) {
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.device = device;
  allocation.flags = flags;
  std::lock_guard<std::mutex> lock(mutex_);
  if (CountsForDevice(allocation) && !ReserveLocked(bytes, device)) return nullptr;
  void* memory = nullptr;
  if (kind == MemoryKind::kDevice) {
    SharedHeap::Block block;
    if (heaps_[device]->Allocate(bytes, &block)) {
      memory = block.address;
      allocation.offset = block.offset;
      allocation.origin = MemoryOrigin::kHeap;
    }
  } else if (bytes >= kMapFrom) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
    allocation.origin = MemoryOrigin::kMapped;
  } else {
    memory = aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  if (memory == nullptr) {
    if (CountsForDevice(allocation)) used_bytes_[device] -= bytes;
    return nullptr;
  }
  allocation.base = reinterpret_cast<uintptr_t>(memory);
  allocation.id = next_id_++;
  allocations_[allocation.base] = allocation;
  return memory;
}

void MemoryTable::Insert(Allocation allocation) {
  std::lock_guard<std::mutex> lock(mutex_);
  allocation.id = next_id_++;
  allocations_[allocation.base] = allocation;
}

bool MemoryTable::ReserveLocked(size_t bytes, int device) {
  if (bytes > limit_bytes_ || used_bytes_[device] > limit_bytes_ - bytes) return false;
  used_bytes_[device] += bytes;
  return true;
}

bool MemoryTable::Reserve(size_t bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ReserveLocked(bytes, device);
}

void MemoryTable::Unreserve(size_t bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_bytes_[device] -= bytes;
}

int MemoryTable::HeapFd(int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  return heaps_[device]->fd();
}

bool MemoryTable::Find(const void* pointer, size_t bytes, Allocation* found) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return false;
  const Allocation& allocation = std::prev(after)->second;
  const uintptr_t offset = address - allocation.base;
  if (offset >= allocation.bytes || bytes > allocation.bytes - offset) return false;
  *found = allocation;
  return true;
}

bool MemoryTable::FindBase(const void* pointer, Allocation* found) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (at == allocations_.end()) return false;
  *found = at->second;
  return true;
}

bool MemoryTable::SetSynchronises(const void* pointer, bool synchronises) {
  Allocation found;
  if (!Find(pointer, 0, &found)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = allocations_.find(found.base);
  if (at == allocations_.end()) return false;
  at->second.synchronises = synchronises;
  return true;
}

void MemoryTable::FreePages(const Allocation& allocation) {
  if (CountsForDevice(allocation)) used_bytes_[allocation.device] -= allocation.bytes;
  void* const memory = reinterpret_cast<void*>(allocation.base);
  switch (allocation.origin) {
    case MemoryOrigin::kHeap:
      heaps_[allocation.device]->Free({memory, allocation.offset}, allocation.bytes);
      break;
    case MemoryOrigin::kMapped:
      munmap(memory, allocation.bytes);
      break;
    case MemoryOrigin::kMalloc:
      free(memory);
      break;
    case MemoryOrigin::kForeign:
    case MemoryOrigin::kPool:
    case MemoryOrigin::kIpc:
    case MemoryOrigin::kVirtual:
      break;
  }
}

bool MemoryTable::Release(void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (at == allocations_.end()) return false;
  FreePages(at->second);
  allocations_.erase(at);
  return true;
}

void MemoryTable::ReleaseDevice(int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = allocations_.begin(); at != allocations_.end();) {
    if (at->second.device != device) {
      ++at;
      continue;
    }
    FreePages(at->second);
    at = allocations_.erase(at);
  }
}

int MemoryTable::Register(void* pointer, size_t bytes, int device, unsigned flags) {
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const uintptr_t base = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto taken = [](const Allocation& allocation) {
    return allocation.kind == MemoryKind::kRegistered ? kHostMemoryAlreadyRegistered
                                                      : kInvalidValue;
  };
  auto after = allocations_.lower_bound(base);
  if (after != allocations_.end() && after->first - base < bytes) return taken(after->second);
  if (after != allocations_.begin()) {
    const Allocation& before = std::prev(after)->second;
    if (base - before.base < before.bytes) return taken(before);
  }
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kRegistered;
  allocation.device = device;
  allocation.flags = flags;
  allocation.origin = MemoryOrigin::kForeign;
  allocation.id = next_id_++;
  allocations_[base] = allocation;
  return kSuccess;
}

int MemoryTable::Unregister(void* pointer) {
  if (pointer == nullptr) return kInvalidValue;
  std::lock_guard<std::mutex> lock(mutex_);
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return kHostMemoryNotRegistered;
  const auto at = std::prev(after);
  if (address - at->first >= at->second.bytes) return kHostMemoryNotRegistered;
  if (address != at->first || at->second.kind != MemoryKind::kRegistered) return kInvalidValue;
  allocations_.erase(at);
  return kSuccess;
}

size_t MemoryTable::UsedBytes(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return used_bytes_[device];
}

}  // namespace gordian::emu
