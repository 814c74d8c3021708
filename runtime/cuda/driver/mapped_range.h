// A range of addresses of a device, as large in every process, and what is mapped in it: pieces of
// physical memory (cuMemCreate), this process's own or another's. So two pieces have the same
// distance in each process that maps both.
//
// Thread rule: any thread.
// Ownership: the range keeps what is mapped in it. Unmap is for the time when no kernel uses the
// piece any more; it may wait for the device (docs/runtime-cuda.md, Registered memory). Errors:
// Status; kUnavailable where the device or the driver cannot do this.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_MAPPED_RANGE_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_MAPPED_RANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"

namespace gordian::runtime::cuda {

// Addresses only. Below: pieces that a heap is made of; above, as far as kRangeBytes: memory that
// the program has registered, more than a device has.
inline constexpr uint64_t kHeapRangeBytes = 64ull << 30;
inline constexpr uint64_t kRangeBytes = 512ull << 30;

class MappedRange {
 public:
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  static Status Reserve(const Driver* driver, int device, std::unique_ptr<MappedRange>* range);
  // For this device to read and write.
  Status Map(uint64_t offset, uint64_t bytes, CUmemGenericAllocationHandle handle);
  // The descriptor stays the caller's.
  Status MapDescriptor(uint64_t offset, uint64_t bytes, int descriptor);
  // What is mapped, for another device of this process too.
  Status Share(uint64_t offset, uint64_t bytes, int device);
  // By one thread for a piece.
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
