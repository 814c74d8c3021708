// Device memory as a program makes it with the driver's own calls: a range of addresses, and
// allocations of cuMemCreate that are mapped in it. ncclMemAlloc and PyTorch's expandable segments
// are made so.
#ifndef GORDIAN_RUNTIME_TESTING_VMM_MEMORY_H_
#define GORDIAN_RUNTIME_TESTING_VMM_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace gordian::testing {

class VmmMemory {
 public:
  ~VmmMemory() { Free(); }
  VmmMemory() = default;
  VmmMemory(const VmmMemory&) = delete;
  VmmMemory& operator=(const VmmMemory&) = delete;

  // `pieces` allocations, behind each other; bytes a multiple of 2 MiB for each. `at`: where, if
  // that is free; 0: anywhere. Empty: it worked.
  std::string Make(int device, uint64_t bytes, int pieces = 1, bool exportable = true,
                   uint64_t at = 0) {
    std::string why;
    d_ = runtime::cuda::LoadDriver(&why);
    if (d_ == nullptr) return why;
    bytes_ = bytes;
    if (const CUresult e = d_->reserve(&base_, bytes, 0, at, 0); e != CUDA_SUCCESS)
      return Error("cuMemAddressReserve", e);
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    if (exportable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int i = 0; i < pieces; ++i) {
      const uint64_t each = bytes / static_cast<uint64_t>(pieces);
      CUmemGenericAllocationHandle handle;
      CUresult e = d_->create(&handle, each, &properties, 0);
      if (e != CUDA_SUCCESS) return Error("cuMemCreate", e);
      e = d_->map(base_ + mapped_, each, 0, handle, 0);
      d_->release(handle);
      if (e != CUDA_SUCCESS) return Error("cuMemMap", e);
      mapped_ += each;
      pieces_.push_back(each);
    }
    const CUresult e = d_->set_access(base_, bytes, &access, 1);
    return e == CUDA_SUCCESS ? "" : Error("cuMemSetAccess", e);
  }
  // Waits for nothing: what uses it must be over.
  void Free() {
    uint64_t at = 0;
    for (const uint64_t bytes : pieces_) {
      d_->unmap(base_ + at, bytes);
      at += bytes;
    }
    pieces_.clear();
    mapped_ = 0;
    if (base_ != 0) d_->free_address(base_, bytes_);
    base_ = 0;
  }
  char* get() const { return reinterpret_cast<char*>(base_); }
  float* floats(uint64_t byte = 0) const { return reinterpret_cast<float*>(base_ + byte); }
  uint64_t address() const { return base_; }

 private:
  static std::string Error(const char* what, CUresult e) {
    return std::string(what) + ": " + std::to_string(e);
  }

  const runtime::cuda::Driver* d_ = nullptr;
  CUdeviceptr base_ = 0;
  uint64_t bytes_ = 0, mapped_ = 0;
  std::vector<uint64_t> pieces_;
};

}  // namespace gordian::testing

#endif  // GORDIAN_RUNTIME_TESTING_VMM_MEMORY_H_
