// A heap of a device's memory that grows in pieces: other processes map each piece when they need
// it. A piece is physical memory with a POSIX file descriptor (cuMemCreate); all pieces lie in one
// range of addresses that the heap reserves when it is made. A process that maps another's pieces
// reserves a range of the same size, so that two pieces have the same distance there; another
// device of the same process uses the same addresses.
//
// Offsets count from base(), in bytes. Thread rule: one thread at a time; DescriptorOf and
// ShareWith: any thread. Ownership: the heap keeps all pieces until its end, and the caller ends it
// when no kernel uses them any more; until then the heap frees nothing and waits for no kernel.
// Errors: Status; kUnavailable: the device or the driver cannot do this.
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

  // Adds a piece of at least `bytes`, fills it with zeros on `stream`, and waits for that.
  Status Add(uint64_t bytes, cudaStream_t stream, uint64_t* offset);
  // Gives the descriptor and the bytes of the piece at `offset`; the descriptor stays the heap's.
  // -1: there is no such piece.
  int DescriptorOf(uint64_t offset, uint64_t* bytes) const;
  // Lets another device of this process read and write the piece at `offset`, at the same address.
  // Any thread.
  Status ShareWith(int device, uint64_t offset);
  char* base() const { return range_->base(); }
  // The caller may map memory of its own in it above kHeapRangeBytes.
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
