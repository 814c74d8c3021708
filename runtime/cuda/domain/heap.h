// Memory that every process of the job on this node can write: each rank allocates one block of its
// device's memory, once, and all ranks map it. It is physical memory with a POSIX file descriptor
// (cuMemCreate), so that a mapping outlives its owner's process; if that fails on one rank, all
// ranks fall back to cudaIpc, whose mappings may end with the owner.
//
// Sizes in bytes, timeouts in milliseconds. Thread rule: one thread calls Create, with the device
// current; the rest is constant. Ownership: the heap owns its mappings; the caller destroys it when
// the kernels that use them have ended. Errors: Status.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_HEAP_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "runtime/cuda/domain/rendezvous.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/physical_memory.h"

namespace gordian::runtime::cuda {

class Heap {
 public:
  // All ranks call it together, with equal `bytes`. When it returns, the memory of all ranks is
  // zero. `use_ipc` forces the fallback, for tests.
  static Status Create(Rendezvous* rendezvous, int device, size_t bytes, bool use_ipc,
                       int timeout_ms, std::unique_ptr<Heap>* heap);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  char* base(int rank) const { return bases_[rank]; }  // as mapped here
  size_t bytes() const { return bytes_; }
  bool is_ipc() const { return ipc_; }

 private:
  explicit Heap(int rank) : rank_(rank) {}
  Status Allocate(int device, size_t bytes, int* descriptor);
  Status Import(int device, int descriptor, char** base);
  Status Map(int device, const PhysicalMemory& memory, char** base);
  void Release();

  const int rank_;
  const Driver* driver_ = nullptr;
  size_t bytes_ = 0;
  bool ipc_ = false;
  std::vector<char*> bases_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_HEAP_H_
