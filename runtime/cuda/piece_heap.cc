#include "runtime/cuda/piece_heap.h"

#include <string.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace gordian::runtime::cuda {
namespace {

Status Failed(const char* what, int error) {
  return Status::Unavailable(std::string(what) + " failed with CUDA error " +
                             std::to_string(error));
}

Status Load(const Driver** driver) {
  std::string why;
  *driver = LoadDriver(&why);
  return *driver != nullptr ? Status::Ok() : Status::Unavailable(why);
}

CUmemAllocationProp Properties(int device) {
  CUmemAllocationProp properties;
  memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

}  // namespace

Status PieceHeap::Create(int device, std::unique_ptr<PieceHeap>* heap) {
  const Driver* driver = nullptr;
  if (Status s = Load(&driver); !s.ok()) return s;
  std::unique_ptr<PieceHeap> h(new PieceHeap(device, driver));
  if (Status s = MappedRange::Reserve(driver, device, &h->range_); !s.ok()) return s;
  *heap = std::move(h);
  return Status::Ok();
}

PieceHeap::~PieceHeap() {
  for (const auto& [offset, piece] : pieces_) close(piece.descriptor);
}

Status PieceHeap::Add(uint64_t bytes, cudaStream_t stream, uint64_t* offset) {
  const CUmemAllocationProp properties = Properties(device_);
  size_t unit = 0;
  if (const CUresult e =
          driver_->granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
      e != CUDA_SUCCESS) {
    return Failed("cuMemGetAllocationGranularity", e);
  }
  bytes = (bytes + unit - 1) / unit * unit;
  if (bytes > kHeapRangeBytes - end_)
    return Status::Unavailable("the range of addresses for pieces is used up");
  CUmemGenericAllocationHandle handle;
  if (const CUresult e = driver_->create(&handle, bytes, &properties, 0); e != CUDA_SUCCESS) {
    return Failed("cuMemCreate", e);
  }
  int descriptor = -1;
  Status status = range_->Map(end_, bytes, handle);
  if (status.ok()) {
    const CUresult e =
        driver_->export_handle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (e != CUDA_SUCCESS) status = Failed("cuMemExportToShareableHandle", e);
  }
  driver_->release(handle);
  if (!status.ok()) {
    end_ += range_->Has(end_) ? bytes : 0;  // what is mapped there is not used again
    return status;
  }
  *offset = end_;
  end_ += bytes;
  {
    const std::lock_guard<std::mutex> held(mutex_);
    pieces_[*offset] = {bytes, descriptor};
  }
  cudaError_t e = cudaMemsetAsync(base() + *offset, 0, bytes, stream);
  if (e == cudaSuccess) e = cudaStreamSynchronize(stream);
  return e == cudaSuccess ? Status::Ok() : Failed("clearing a piece of the heap", e);
}

Status PieceHeap::ShareWith(int device, uint64_t offset) {
  const std::lock_guard<std::mutex> held(mutex_);
  const auto at = pieces_.find(offset);
  if (at == pieces_.end()) return Status::InvalidArgument("there is no such piece");
  return range_->Share(offset, at->second.bytes, device);
}

int PieceHeap::DescriptorOf(uint64_t offset, uint64_t* bytes) const {
  const std::lock_guard<std::mutex> held(mutex_);
  const auto at = pieces_.find(offset);
  if (at == pieces_.end()) return -1;
  *bytes = at->second.bytes;
  return at->second.descriptor;
}

}  // namespace gordian::runtime::cuda
