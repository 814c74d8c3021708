#include "runtime/cuda/domain/heap.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "runtime/cuda/driver/cuda_calls.h"

namespace gordian::runtime::cuda {

Heap::~Heap() { Release(); }

void Heap::Release() {
  for (size_t r = 0; r < bases_.size(); ++r) {
    if (bases_[r] == nullptr) continue;
    if (!ipc_) {
      const auto at = reinterpret_cast<CUdeviceptr>(bases_[r]);
      driver_->unmap(at, bytes_);
      driver_->free_address(at, bytes_);
    } else if (static_cast<int>(r) == rank_) {
      cudaFree(bases_[r]);
    } else {
      cudaIpcCloseMemHandle(bases_[r]);
    }
    bases_[r] = nullptr;
  }
}

// Maps for this device alone: each process maps for its own device.
Status Heap::Map(int device, const PhysicalMemory& memory, char** base) {
  CUdeviceptr at = 0;
  if (const CUresult e = driver_->reserve(&at, bytes_, 0, 0, 0); e != CUDA_SUCCESS) {
    return DriverFailed("cuMemAddressReserve", e);
  }
  const Status status = MapAt(*driver_, at, bytes_, memory.handle(), device);
  if (!status.ok()) {
    driver_->free_address(at, bytes_);
    return status;
  }
  *base = reinterpret_cast<char*>(at);
  return Status::Ok();
}

Status Heap::Allocate(int device, size_t bytes, int* descriptor) {
  std::string why;
  driver_ = LoadDriver(&why);
  if (driver_ == nullptr) return Status::Unavailable(why);
  std::optional<PhysicalMemory> memory;
  if (Status s = PhysicalMemory::Create(driver_, device, bytes, &memory); !s.ok()) return s;
  bytes_ = memory->bytes();
  Status status = Map(device, *memory, &bases_[rank_]);
  if (status.ok()) status = memory->Export(descriptor);
  return status;
}

Status Heap::Import(int device, int descriptor, char** base) {
  std::optional<PhysicalMemory> memory;
  Status status = PhysicalMemory::Import(driver_, descriptor, bytes_, &memory);
  if (status.ok()) status = Map(device, *memory, base);
  return status;
}

Status Heap::Create(Rendezvous* rendezvous, int device, size_t bytes, bool use_ipc, int timeout_ms,
                    std::unique_ptr<Heap>* heap) {
  const int ranks = rendezvous->ranks();
  std::unique_ptr<Heap> h(new Heap(rendezvous->rank()));
  h->bases_.assign(ranks, nullptr);
  // If one rank cannot do a step, all ranks leave it out.
  const auto agree = [&](bool well, bool* all_well) {
    std::vector<std::string> answers;
    const Status status = rendezvous->AllGather(well ? "y" : "n", timeout_ms, &answers);
    *all_well = true;
    for (const std::string& answer : answers) *all_well = *all_well && answer == "y";
    return status;
  };
  int own = -1;
  Status first = use_ipc ? Status::Unavailable("not wanted") : h->Allocate(device, bytes, &own);
  bool well = false;
  if (Status s = agree(first.ok(), &well); !s.ok()) return s;
  if (well) {
    std::vector<int> descriptors;
    if (Status s = rendezvous->AllGatherDescriptor(own, timeout_ms, &descriptors); !s.ok())
      return s;
    for (int r = 0; r < ranks; ++r) {
      if (r == h->rank_) continue;
      if (first.ok()) first = h->Import(device, descriptors[r], &h->bases_[r]);
      close(descriptors[r]);
    }
    if (Status s = agree(first.ok(), &well); !s.ok()) return s;
  }
  if (own >= 0) close(own);
  if (!well) {
    h->Release();
    h->ipc_ = true;
    h->bytes_ = bytes;
    cudaIpcMemHandle_t handle;
    memset(&handle, 0, sizeof handle);
    cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&h->bases_[h->rank_]), bytes);
    if (error == cudaSuccess) error = cudaIpcGetMemHandle(&handle, h->bases_[h->rank_]);
    std::vector<std::string> handles;
    if (Status s = rendezvous->AllGather(
            std::string(reinterpret_cast<char*>(&handle), sizeof handle), timeout_ms, &handles);
        !s.ok()) {
      return s;
    }
    for (int r = 0; r < ranks && error == cudaSuccess; ++r) {
      if (r == h->rank_) continue;
      memcpy(&handle, handles[r].data(), sizeof handle);
      error = cudaIpcOpenMemHandle(reinterpret_cast<void**>(&h->bases_[r]), handle,
                                   cudaIpcMemLazyEnablePeerAccess);
    }
    if (Status s = agree(error == cudaSuccess, &well); !s.ok()) return s;
    if (error != cudaSuccess) {
      return Status::Internal("neither memory with descriptors (" + first.ToString() +
                              ") nor cudaIpc: " + cudaGetErrorString(error));
    }
    if (!well) return Status::Unavailable("another rank cannot map the ranks' memory");
  }
  cudaError_t error = cudaMemset(h->bases_[h->rank_], 0, h->bytes_);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return Cuda(error, "clearing the heap");
  if (Status s = rendezvous->Barrier(timeout_ms); !s.ok()) return s;
  *heap = std::move(h);
  return Status::Ok();
}

}  // namespace gordian::runtime::cuda
