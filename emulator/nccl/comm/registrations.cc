#include "emulator/nccl/comm/registrations.h"

#include <algorithm>
#include <atomic>

namespace gordian::emu::nccl {
namespace {

constexpr uintptr_t kPageBytes = 4096;

// Unique in the process and no valid address, so that no caller can look behind it.
void* NextHandle() {
  static std::atomic<uintptr_t> next{0x1000};
  return reinterpret_cast<void*>(next.fetch_add(16));
}

}  // namespace

void* Registrations::Add(const void* buffer, size_t size) {
  auto address = reinterpret_cast<uintptr_t>(buffer);
  uintptr_t begin = address / kPageBytes * kPageBytes;
  uintptr_t end = (address + size + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::lock_guard lock(mutex_);
  for (auto& [handle, pages] : buffers_) {
    if (pages.begin > begin || pages.end < end) continue;
    ++pages.references;
    return handle;
  }
  void* handle = NextHandle();
  buffers_[handle] = {begin, end, 1};
  return handle;
}

bool Registrations::Remove(void* handle) {
  std::lock_guard lock(mutex_);
  auto it = buffers_.find(handle);
  if (it == buffers_.end()) return false;
  if (--it->second.references == 0) buffers_.erase(it);
  return true;
}

ncclWindow_t Registrations::AddWindow(uint64_t ordinal, const void* buffer, size_t size,
                                      bool symmetric) {
  std::lock_guard lock(mutex_);
  void* handle = NextHandle();
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  windows_[handle] = {ordinal, begin, begin + size, symmetric};
  return static_cast<ncclWindow_t>(handle);
}

bool Registrations::FindWindow(ncclWindow_t window, uint64_t* ordinal) {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(window);
  if (found == windows_.end()) return false;
  *ordinal = found->second.ordinal;
  return true;
}

bool Registrations::InSymmetricWindow(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(mutex_);
  return std::any_of(windows_.begin(), windows_.end(), [&](const auto& entry) {
    const Registered& window = entry.second;
    return window.symmetric && begin >= window.begin && begin <= window.end &&
           bytes <= window.end - begin;
  });
}

bool Registrations::RemoveWindow(ncclWindow_t window) {
  std::lock_guard lock(mutex_);
  return windows_.erase(window) != 0;
}

}  // namespace gordian::emu::nccl
