#include "runtime/cuda/driver/allocations.h"

#include <algorithm>
#include <string>

namespace gordian::runtime::cuda {
namespace {

Status Of(const Driver& driver, int device, uint64_t at, Allocation* allocation) {
  auto* const address = reinterpret_cast<void*>(at);
  if (driver.retain(&allocation->handle, address) != CUDA_SUCCESS) {
    return Status::Unavailable("memory that was not made by cuMemCreate");
  }
  CUmemAllocationProp properties = {};
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  CUresult e = driver.properties(&properties, allocation->handle);
  if (e == CUDA_SUCCESS)
    e = driver.pointer_attribute(&begin, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
  if (e == CUDA_SUCCESS)
    e = driver.pointer_attribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at);
  allocation->begin = begin;
  allocation->bytes = bytes;
  const bool is_exportable =
      (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  const bool is_here =
      properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id == device;
  if (e == CUDA_SUCCESS && is_exportable && is_here && begin <= at && at - begin < bytes)
    return Status::Ok();
  driver.release(allocation->handle);
  if (e != CUDA_SUCCESS)
    return Status::Unavailable("asking for an allocation failed with CUDA error " +
                               std::to_string(e));
  return Status::Unavailable(is_here ? "memory without a POSIX file descriptor"
                                     : "memory of another device");
}

}  // namespace

Status AllocationsBehind(const Driver& driver, int device, const void* memory, uint64_t bytes,
                         std::vector<Allocation>* allocations) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  if (memory == nullptr || bytes == 0 || bytes > UINT64_MAX - begin)
    return Status::InvalidArgument("no memory");
  std::vector<Allocation> found;
  for (uint64_t at = begin; at < begin + bytes;) {
    Allocation allocation;
    const Status status = Of(driver, device, at, &allocation);
    if (!status.ok()) {
      Release(driver, found);
      return status;
    }
    found.push_back(allocation);
    at = allocation.begin + allocation.bytes;
  }
  *allocations = std::move(found);
  return Status::Ok();
}

void Release(const Driver& driver, const std::vector<Allocation>& allocations) {
  for (const Allocation& allocation : allocations) driver.release(allocation.handle);
}

bool IsStillBehind(const Driver& driver, const std::vector<Allocation>& allocations, uint64_t begin,
                   uint64_t end) {
  return std::all_of(allocations.begin(), allocations.end(), [&](const Allocation& allocation) {
    const uint64_t at = std::max(begin, allocation.begin);
    if (at >= end || at - allocation.begin >= allocation.bytes) return true;  // not used
    CUmemGenericAllocationHandle now;
    if (driver.retain(&now, reinterpret_cast<void*>(at)) != CUDA_SUCCESS) return false;
    driver.release(now);
    return now == allocation.handle;
  });
}

}  // namespace gordian::runtime::cuda
