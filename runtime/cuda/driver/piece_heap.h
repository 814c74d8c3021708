// Memory of a device in pieces that other processes can map one by one, when they need them:
// physical memory with a POSIX file descriptor each (cuMemCreate), in one range of addresses that
// is reserved at first. A peer reserves as large a range, so that two pieces have the same distance
// there; another device of the same process uses the same addresses.
//
// Thread rule: one thread at a time; DescriptorOf and ShareWith: any.
// Ownership: pieces stay until the heap ends, which is when no kernel uses them any more. Nothing
// here frees memory or waits for kernels before. Errors: Status; kUnavailable where the device or
// the driver cannot do this.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_PIECE_HEAP_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_PIECE_HEAP_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/mapped_range.h"

namespace gordian::runtime::cuda {

class PieceHeap {
 public:
  static Status Create(int device, std::unique_ptr<PieceHeap>* heap);
  ~PieceHeap();
  PieceHeap(const PieceHeap&) = delete;
  PieceHeap& operator=(const PieceHeap&) = delete;

  // A new piece of at least `bytes`, filled with zeros on `stream`, which is waited for.
  Status Add(uint64_t bytes, cudaStream_t stream, uint64_t* offset);
  // Of the piece at `offset`, with its bytes; the heap's. -1: there is none.
  int DescriptorOf(uint64_t offset, uint64_t* bytes) const;
  // Lets another device of this process read and write the piece at `offset`, at the same address.
  // Any thread.
  Status ShareWith(int device, uint64_t offset);
  char* base() const { return range_->base(); }
  // Above kHeapRangeBytes it is the caller's.
  MappedRange* range() { return range_.get(); }
  const Driver* driver() const { return driver_; }

 private:
  PieceHeap(int device, const Driver* driver) : device_(device), driver_(driver) {}

  const int device_;
  const Driver* const driver_;
  std::unique_ptr<MappedRange> range_;
  uint64_t end_ = 0;
  struct Piece {
    uint64_t bytes;
    int descriptor;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Piece> pieces_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_PIECE_HEAP_H_
