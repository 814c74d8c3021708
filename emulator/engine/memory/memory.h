// Allocates, and finds by address, the memory that the emulated devices know: device, managed and
// pinned host memory, and registered host memory. All of it is host memory; device memory lies in
// one shareable heap per device.
//
// Sizes in bytes. Threads: any. Ownership: the table frees what it allocated; the owner of inserted
// or registered memory frees that. Errors: null, false or a Status.
#ifndef GORDIAN_EMULATOR_ENGINE_MEMORY_MEMORY_H_
#define GORDIAN_EMULATOR_ENGINE_MEMORY_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/engine/memory/shared_heap.h"

namespace gordian::emu {

enum class MemoryKind { kDevice, kManaged, kPinned, kRegistered };

// Where an allocation's pages come from, and so how to free them.
enum class MemoryOrigin {
  kHeap,     // the device's shareable heap
  kMapped,   // an mmap of its own
  kMalloc,   // aligned_alloc
  kForeign,  // registered host memory: the program's
  kPool,     // a memory pool's
  kIpc,      // another process's, mapped here
  kVirtual,  // mapped by cuMemMap
};

struct Allocation {
  uintptr_t base = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  // owner; for host memory the device that was current
  unsigned flags = 0;
  MemoryOrigin origin = MemoryOrigin::kMalloc;
  uint64_t offset = 0;        // in its heap's memfd
  uint64_t id = 0;            // never used twice in a process
  void* pool = nullptr;       // of a pool's memory
  bool synchronises = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
};

class MemoryTable {
 public:
  MemoryTable(int devices, size_t limit_bytes);

  // Returns memory aligned to 256 bytes; null at the device's limit or without host memory.
  void* Allocate(size_t bytes, MemoryKind kind, int device, unsigned flags);
  // Adds memory that its owner made (kPool, kIpc, kVirtual) and frees after Release.
  void Insert(Allocation allocation);
  // Finds the allocation that holds `pointer` and the `bytes` after it. Returns false if there is
  // none.
  bool Find(const void* pointer, size_t bytes, Allocation* found) const;
  // The allocation that starts at `pointer`.
  bool FindBase(const void* pointer, Allocation* found) const;
  // For the allocation that holds `pointer`. Returns false if there is none.
  bool SetSynchronises(const void* pointer, bool synchronises);
  // Ends the allocation that starts at `pointer`. Returns false if there is none.
  bool Release(void* pointer);
  void ReleaseDevice(int device);

  // A Status.
  int Register(void* pointer, size_t bytes, int device, unsigned flags);
  int Unregister(void* pointer);

  size_t limit_bytes() const { return limit_bytes_; }
  size_t UsedBytes(int device) const;
  // Takes bytes of a device for memory outside of this table (pools, cuMemCreate). Returns false if
  // the device is full.
  bool Reserve(size_t bytes, int device);
  void Unreserve(size_t bytes, int device);
  // The memfd of a device's own memory; -1 if there is none.
  int HeapFd(int device);

 private:
  bool ReserveLocked(size_t bytes, int device);
  void FreePages(const Allocation& allocation);

  const size_t limit_bytes_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by base, disjoint
  std::vector<size_t> used_bytes_;               // device and managed memory, per device
  std::vector<std::unique_ptr<SharedHeap>> heaps_;
  uint64_t next_id_ = 1;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_MEMORY_MEMORY_H_
