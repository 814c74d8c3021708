#include "runtime/cuda/mapped_range.h"

#include <string.h>

#include <iterator>
#include <string>
#include <utility>

namespace gordian::runtime::cuda {
namespace {

Status Failed(const char* what, int error) {
  return Status::Unavailable(std::string(what) + " failed with CUDA error " +
                             std::to_string(error));
}

}  // namespace

Status MappedRange::Reserve(const Driver* driver, int device, std::unique_ptr<MappedRange>* range) {
  std::unique_ptr<MappedRange> r(new MappedRange(device, driver));
  if (const CUresult e = driver->reserve(&r->base_, kRangeBytes, 0, 0, 0); e != CUDA_SUCCESS) {
    r->base_ = 0;
    return Failed("cuMemAddressReserve", e);
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
  if (const CUresult e = driver_->map(base_ + offset, bytes, 0, handle, 0); e != CUDA_SUCCESS) {
    return Failed("cuMemMap", e);
  }
  if (Status s = Share(offset, bytes, device_); !s.ok()) {
    driver_->unmap(base_ + offset, bytes);
    return s;
  }
  pieces_[offset] = bytes;
  return Status::Ok();
}

Status MappedRange::Share(uint64_t offset, uint64_t bytes, int device) {
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult e = driver_->set_access(base_ + offset, bytes, &access, 1);
  return e == CUDA_SUCCESS ? Status::Ok() : Failed("cuMemSetAccess", e);
}

Status MappedRange::MapDescriptor(uint64_t offset, uint64_t bytes, int descriptor) {
  CUmemGenericAllocationHandle handle;
  if (const CUresult e = driver_->import_handle(
          &handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      e != CUDA_SUCCESS) {
    return Failed("cuMemImportFromShareableHandle", e);
  }
  const Status status = Map(offset, bytes, handle);
  driver_->release(handle);  // the mapping keeps the memory
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
  // Not with the lock: it may take as long as the device's kernels.
  if (const CUresult e = driver_->unmap(base_ + offset, bytes); e != CUDA_SUCCESS)
    return Failed("cuMemUnmap", e);
  const std::lock_guard<std::mutex> held(mutex_);
  pieces_.erase(offset);
  return Status::Ok();
}

bool MappedRange::Has(uint64_t offset) const {
  const std::lock_guard<std::mutex> held(mutex_);
  return pieces_.contains(offset);
}

}  // namespace gordian::runtime::cuda
