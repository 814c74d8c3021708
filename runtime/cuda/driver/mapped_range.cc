#include "runtime/cuda/driver/mapped_range.h"

#include <iterator>
#include <optional>
#include <utility>

#include "runtime/cuda/driver/physical_memory.h"

namespace gordian::runtime::cuda {

Status MappedRange::Reserve(const Driver* driver, int device, std::unique_ptr<MappedRange>* range) {
  std::unique_ptr<MappedRange> r(new MappedRange(device, driver));
  if (const CUresult e = driver->reserve(&r->base_, kRangeBytes, 0, 0, 0); e != CUDA_SUCCESS) {
    r->base_ = 0;
    return DriverFailed("cuMemAddressReserve", e);
  }
  *range = std::move(r);
  return Status::Ok();
}

MappedRange::~MappedRange() {
  if (base_ == 0) return;
  for (const auto& [offset, bytes] : pieces_) driver_->unmap(base_ + offset, bytes);
  driver_->free_address(base_, kRangeBytes);
}

Status MappedRange::Map(uint64_t offset, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  if (bytes == 0 || offset > kRangeBytes || bytes > kRangeBytes - offset) {
    return Status::Unavailable("the range of addresses for pieces is used up");
  }
  const std::lock_guard<std::mutex> held(mutex_);
  const auto next = pieces_.lower_bound(offset);
  if ((next != pieces_.end() && next->first - offset < bytes) ||
      (next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second > offset)) {
    return Status::AlreadyExists("another piece is mapped there");
  }
  if (Status s = MapAt(*driver_, base_ + offset, bytes, handle, device_); !s.ok()) return s;
  pieces_[offset] = bytes;
  return Status::Ok();
}

Status MappedRange::Share(uint64_t offset, uint64_t bytes, int device) {
  return LetAccess(*driver_, base_ + offset, bytes, device);
}

Status MappedRange::MapDescriptor(uint64_t offset, uint64_t bytes, int descriptor) {
  std::optional<PhysicalMemory> memory;
  Status status = PhysicalMemory::Import(driver_, descriptor, bytes, &memory);
  if (status.ok()) status = Map(offset, bytes, memory->handle());
  return status;
}

Status MappedRange::Unmap(uint64_t offset) {
  uint64_t bytes = 0;
  {
    const std::lock_guard<std::mutex> held(mutex_);
    const auto at = pieces_.find(offset);
    if (at == pieces_.end()) return Status::InvalidArgument("there is no such piece");
    bytes = at->second;
  }
  // Unmap without the lock: the call may wait until the device's kernels end.
  if (const CUresult e = driver_->unmap(base_ + offset, bytes); e != CUDA_SUCCESS)
    return DriverFailed("cuMemUnmap", e);
  const std::lock_guard<std::mutex> held(mutex_);
  pieces_.erase(offset);
  return Status::Ok();
}

bool MappedRange::Has(uint64_t offset) const {
  const std::lock_guard<std::mutex> held(mutex_);
  return pieces_.contains(offset);
}

}  // namespace gordian::runtime::cuda
