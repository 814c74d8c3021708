// Which memory the emulated devices know: allocations of device, managed and pinned host memory,
// and registered host memory. All of it is host memory. Threads: any.
#ifndef GORDIAN_EMULATOR_ENGINE_MEMORY_H_
#define GORDIAN_EMULATOR_ENGINE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace gordian::emu {

enum class MemoryKind { kDevice, kManaged, kPinned, kRegistered };

struct Allocation {
  uintptr_t base = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  // owner; for host memory the device that was current
  unsigned flags = 0;
  bool mapped = false;  // by mmap, else by aligned_alloc
};

class MemoryTable {
 public:
  MemoryTable(int devices, size_t limit_bytes);

  // Memory aligned to 256 bytes; null when the device's limit or the host's memory is reached.
  void* Allocate(size_t bytes, MemoryKind kind, int device, unsigned flags);
  // The allocation that holds `pointer` and `bytes` after it. False when there is none.
  bool Find(const void* pointer, size_t bytes, Allocation* found) const;
  // The allocation that starts at `pointer`.
  bool FindBase(const void* pointer, Allocation* found) const;
  // Ends the allocation that starts at `pointer`. False when there is none.
  bool Release(void* pointer);
  void ReleaseDevice(int device);

  // A Status.
  int Register(void* pointer, size_t bytes, int device, unsigned flags);
  int Unregister(void* pointer);

  size_t limit_bytes() const { return limit_bytes_; }
  size_t UsedBytes(int device) const;

 private:
  void FreePages(const Allocation& allocation);

  const size_t limit_bytes_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by base, disjoint
  std::vector<size_t> used_bytes_;               // device and managed memory, per device
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_MEMORY_H_
