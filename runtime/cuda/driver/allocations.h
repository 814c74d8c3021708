// Finds the physical memory behind addresses of the program: allocations of cuMemCreate, one for
// each mapping, which this process can export to other processes.
//
// The driver names no such allocation for memory of cudaMalloc. cudaIpc would reach that memory;
// docs/runtime-cuda.md (Registered memory) says why the runtime does not use it.
//
// Sizes in bytes. Thread rule: any thread. Ownership: each Allocation holds a reference to its
// memory until the caller calls Release. Errors: Status; kUnavailable: memory of another kind, of
// another device, or made without an exportable handle.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_ALLOCATIONS_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_ALLOCATIONS_H_

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"

namespace gordian::runtime::cuda {

struct Allocation {
  uint64_t begin, bytes;  // where it is mapped
  CUmemGenericAllocationHandle handle;

  bool operator==(const Allocation&) const = default;
};

// Gives the allocations that [memory, memory + bytes) lies in, in the order of addresses, without
// gaps.
Status AllocationsBehind(const Driver& driver, int device, const void* memory, uint64_t bytes,
                         std::vector<Allocation>* allocations);
void Release(const Driver& driver, const std::vector<Allocation>& allocations);

// Whether the same allocations are still mapped behind [begin, end), which may be a part of what
// `allocations` cover.
bool IsStillBehind(const Driver& driver, const std::vector<Allocation>& allocations, uint64_t begin,
                   uint64_t end);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_ALLOCATIONS_H_
