// Reserves a range of a device's addresses, equally large in every process, and maps pieces of
// physical memory (cuMemCreate) in it, of this process or of another one. Two pieces have the same
// distance in each process that maps both.
//
// Offsets count from the range's base, in bytes. Thread rule: any thread.
// Ownership: the range keeps its mappings until Unmap or its end. The caller calls Unmap only when
// no kernel uses the piece any more; Unmap may wait for the device (docs/runtime-cuda.md,
// Registered memory). Errors: Status; kUnavailable: the device or the driver cannot do this.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_MAPPED_RANGE_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_MAPPED_RANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"

namespace gordian::runtime::cuda {

// The range takes addresses only, more of them than a device has memory. A heap maps its pieces
// below kHeapRangeBytes, registered memory of the program lies between that and kRangeBytes.
inline constexpr uint64_t kHeapRangeBytes = 64ull << 30;
inline constexpr uint64_t kRangeBytes = 512ull << 30;

class MappedRange {
 public:
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  static Status Reserve(const Driver* driver, int device, std::unique_ptr<MappedRange>* range);
  // Maps memory for this device to read and write.
  Status Map(uint64_t offset, uint64_t bytes, CUmemGenericAllocationHandle handle);
  // Maps memory that another process has exported. The descriptor stays the caller's.
  Status MapDescriptor(uint64_t offset, uint64_t bytes, int descriptor);
  // Lets another device of this process read and write mapped memory at the same addresses.
  Status Share(uint64_t offset, uint64_t bytes, int device);
  // Unmaps the piece that begins at `offset`. Two threads must not unmap one piece.
  Status Unmap(uint64_t offset);
  bool Has(uint64_t offset) const;
  char* base() const { return reinterpret_cast<char*>(base_); }

 private:
  MappedRange(int device, const Driver* driver) : device_(device), driver_(driver) {}

  const int device_;
  const Driver* const driver_;
  CUdeviceptr base_ = 0;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> pieces_;  // offset -> bytes
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_MAPPED_RANGE_H_
