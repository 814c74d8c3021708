#include "runtime/cuda/driver/piece_heap.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "runtime/cuda/driver/physical_memory.h"

namespace gordian::runtime::cuda {
namespace {

Status Load(const Driver** driver) {
  std::string why;
  *driver = LoadDriver(&why);
  return *driver != nullptr ? Status::Ok() : Status::Unavailable(why);
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
  std::optional<PhysicalMemory> memory;
  if (Status s = PhysicalMemory::Create(driver_, device_, bytes, &memory); !s.ok()) return s;
  bytes = memory->bytes();
  if (bytes > kHeapRangeBytes - end_)
    return Status::Unavailable("the range of addresses for pieces is used up");
  int descriptor = -1;
  Status status = range_->Map(end_, bytes, memory->handle());
  if (status.ok()) status = memory->Export(&descriptor);
  if (!status.ok()) {
    end_ += range_->Has(end_) ? bytes : 0;  // a mapping that is left there keeps its addresses
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
  return e == cudaSuccess ? Status::Ok() : DriverFailed("clearing a piece of the heap", e);
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
