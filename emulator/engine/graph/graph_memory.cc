#include "emulator/engine/graph/graph_memory.h"

#include <algorithm>
#include <vector>

#include "emulator/engine/status.h"

namespace gordian::emu {
namespace {

// The driver takes memory for graphs in pieces of this size. Not measured.
constexpr uint64_t kReserveBytes = 2 << 20;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kReserveBytes - 1) / kReserveBytes * kReserveBytes;
}

}  // namespace

GraphAllocation::~GraphAllocation() { pool->Unreserve(this); }

std::shared_ptr<GraphAllocation> GraphMemoryPool::Reserve(size_t bytes, int device,
                                                          uint64_t owner) {
  void* const pointer = memory_->Allocate(bytes, MemoryKind::kDevice, device, 0);
  if (pointer == nullptr) return nullptr;
  auto allocation = std::make_shared<GraphAllocation>();
  allocation->pool = this;
  allocation->pointer = pointer;
  allocation->bytes = bytes;
  allocation->device = device;
  allocation->owner = owner;
  std::lock_guard<std::mutex> lock(mutex_);
  known_[pointer] = allocation;
  return allocation;
}

void GraphMemoryPool::Unreserve(GraphAllocation* allocation) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (allocation->pointer == nullptr) return;
    known_.erase(allocation->pointer);
  }
  memory_->Release(allocation->pointer);
}

std::shared_ptr<GraphAllocation> GraphMemoryPool::Find(const void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = known_.find(pointer);
  return at == known_.end() ? nullptr : at->second.lock();
}

bool GraphMemoryPool::IsLive(const GraphAllocation& allocation) {
  std::lock_guard<std::mutex> lock(mutex_);
  return live_.count(allocation.pointer) != 0;
}

void GraphMemoryPool::MakeLive(const std::shared_ptr<GraphAllocation>& allocation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (allocation->pointer == nullptr || !live_.emplace(allocation->pointer, allocation).second) {
    return;
  }
  Counters& counters = counters_[allocation->device];
  counters.used += allocation->bytes;
  counters.used_high = std::max(counters.used_high, counters.used);
  counters.reserved = std::max(counters.reserved, RoundUp(counters.used));
  counters.reserved_high = std::max(counters.reserved_high, counters.reserved);
}

std::shared_ptr<GraphAllocation> GraphMemoryPool::End(const void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = live_.find(pointer);
  if (at == live_.end()) return nullptr;
  const std::shared_ptr<GraphAllocation> allocation = std::move(at->second);
  live_.erase(at);
  counters_[allocation->device].used -= allocation->bytes;
  return allocation;
}

void GraphMemoryPool::ResetDevice(int device) {
  std::vector<std::shared_ptr<GraphAllocation>> dropped;  // destroyed without the lock
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = known_.begin(); at != known_.end();) {
    std::shared_ptr<GraphAllocation> allocation = at->second.lock();
    if (allocation == nullptr || allocation->device != device) {
      ++at;
      continue;
    }
    live_.erase(at->first);
    allocation->pointer = nullptr;
    dropped.push_back(std::move(allocation));
    at = known_.erase(at);
  }
  counters_.erase(device);
}

int GraphMemoryPool::GetAttribute(int device, GraphMemory attribute, uint64_t* value) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Counters& counters = counters_[device];
  switch (attribute) {
    case GraphMemory::kUsed:
      *value = counters.used;
      return kSuccess;
    case GraphMemory::kUsedHigh:
      *value = counters.used_high;
      return kSuccess;
    case GraphMemory::kReserved:
      *value = counters.reserved;
      return kSuccess;
    case GraphMemory::kReservedHigh:
      *value = counters.reserved_high;
      return kSuccess;
  }
  return kInvalidValue;
}

// The high watermarks can be reset to zero, and nothing else can be set. After that they start
// from what there is.
int GraphMemoryPool::SetAttribute(int device, GraphMemory attribute, uint64_t value) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (value != 0) return kInvalidValue;
  Counters& counters = counters_[device];
  if (attribute == GraphMemory::kUsedHigh) {
    counters.used_high = counters.used;
  } else if (attribute == GraphMemory::kReservedHigh) {
    counters.reserved_high = counters.reserved;
  } else {
    return kInvalidValue;
  }
  return kSuccess;
}

void GraphMemoryPool::Trim(int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters& counters = counters_[device];
  counters.reserved = RoundUp(counters.used);
}

}  // namespace gordian::emu
