// Makes physical memory of a device (cuMemCreate) that processes pass to each other as file
// descriptors, and maps it.
//
// Sizes in bytes. Thread rule: any thread. Ownership: PhysicalMemory holds a reference until its
// end; a mapping holds another one. Errors: Status; kUnavailable: the driver refused.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_PHYSICAL_MEMORY_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_PHYSICAL_MEMORY_H_

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"

namespace gordian::runtime::cuda {

// The error for a call `what` that failed with `error`, of the driver or of CUDA's runtime.
Status DriverFailed(const char* what, int error);

class PhysicalMemory {
 public:
  // Allocates `bytes`, rounded up to the device's granularity.
  static Status Create(const Driver* driver, int device, uint64_t bytes,
                       std::optional<PhysicalMemory>* memory);
  // Opens memory of `bytes` that another process exported. The descriptor stays the caller's.
  static Status Import(const Driver* driver, int descriptor, uint64_t bytes,
                       std::optional<PhysicalMemory>* memory);
  ~PhysicalMemory() { driver_->release(handle_); }
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // Makes a descriptor to send to other processes. The caller closes it.
  Status Export(int* descriptor) const;
  uint64_t bytes() const { return bytes_; }
  CUmemGenericAllocationHandle handle() const { return handle_; }

  PhysicalMemory(const Driver* driver, CUmemGenericAllocationHandle handle, uint64_t bytes)
      : driver_(driver), handle_(handle), bytes_(bytes) {}

 private:
  const Driver* const driver_;
  const CUmemGenericAllocationHandle handle_;
  const uint64_t bytes_;
};

// Maps memory at addresses that the caller has reserved, for `device` to read and write.
Status MapAt(const Driver& driver, CUdeviceptr at, uint64_t bytes,
             CUmemGenericAllocationHandle handle, int device);
// Lets `device` read and write what is mapped there.
Status LetAccess(const Driver& driver, CUdeviceptr at, uint64_t bytes, int device);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_PHYSICAL_MEMORY_H_
