// What physical memory lies behind addresses of the program's: allocations of cuMemCreate, one a
// mapping, which other processes can be given.
//
// The driver names no such allocation for memory of cudaMalloc. cudaIpc would reach that memory;
// docs/runtime-cuda.md (Registered memory) says why the runtime does not use it.
//
// Thread rule: any thread. Ownership: each Allocation holds a reference to its memory until
// Release. Errors: Status; kUnavailable: memory of another kind, of another device, or not made to
// be handed out.
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

// Those that [memory, memory + bytes) lies in, in the order of addresses, without gaps.
Status AllocationsBehind(const Driver& driver, int device, const void* memory, uint64_t bytes,
                         std::vector<Allocation>* allocations);
void Release(const Driver& driver, const std::vector<Allocation>& allocations);

// Whether [begin, end) still is what it was when `allocations` were found. They may be more than
// that.
bool IsStillBehind(const Driver& driver, const std::vector<Allocation>& allocations, uint64_t begin,
                   uint64_t end);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_ALLOCATIONS_H_
