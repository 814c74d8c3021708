#include "runtime/cuda/heap.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <unistd.h>

#include <utility>

namespace gordian::runtime::cuda {
namespace {

Status Failed(const char* what, int error) {
  return Status::Internal(std::string(what) + " failed with CUDA error " + std::to_string(error));
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

// Mapped for this device alone: each process maps for its own.
Status Heap::Map(int device, CUmemGenericAllocationHandle handle, char** base) {
  CUdeviceptr at = 0;
  if (const CUresult e = driver_->reserve(&at, bytes_, 0, 0, 0); e != CUDA_SUCCESS) {
    return Failed("cuMemAddressReserve", e);
  }
  if (const CUresult e = driver_->map(at, bytes_, 0, handle, 0); e != CUDA_SUCCESS) {
    driver_->free_address(at, bytes_);
    return Failed("cuMemMap", e);
  }
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (const CUresult e = driver_->set_access(at, bytes_, &access, 1); e != CUDA_SUCCESS) {
    driver_->unmap(at, bytes_);
    driver_->free_address(at, bytes_);
    return Failed("cuMemSetAccess", e);
  }
  *base = reinterpret_cast<char*>(at);
  return Status::Ok();
}

Status Heap::Allocate(int device, size_t bytes, int* descriptor) {
  std::string why;
  driver_ = LoadDriver(&why);
  if (driver_ == nullptr) return Status::Unavailable(why);
  const CUmemAllocationProp properties = Properties(device);
  size_t unit = 0;
  if (const CUresult e =
          driver_->granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
      e != CUDA_SUCCESS) {
    return Failed("cuMemGetAllocationGranularity", e);
  }
  bytes_ = (bytes + unit - 1) / unit * unit;
  CUmemGenericAllocationHandle handle;
  if (const CUresult e = driver_->create(&handle, bytes_, &properties, 0); e != CUDA_SUCCESS) {
    return Failed("cuMemCreate", e);
  }
  Status status = Map(device, handle, &bases_[rank_]);
  if (status.ok()) {
    const CUresult e =
        driver_->export_handle(descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (e != CUDA_SUCCESS) status = Failed("cuMemExportToShareableHandle", e);
  }
  driver_->release(handle);  // the mapping keeps the memory
  return status;
}

Status Heap::Import(int device, int descriptor, char** base) {
  CUmemGenericAllocationHandle handle;
  if (const CUresult e = driver_->import_handle(
          &handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      e != CUDA_SUCCESS) {
    return Failed("cuMemImportFromShareableHandle", e);
  }
  const Status status = Map(device, handle, base);
  driver_->release(handle);
  return status;
}

Status Heap::Create(Rendezvous* rendezvous, int device, size_t bytes, bool use_ipc, int timeout_ms,
                    std::unique_ptr<Heap>* heap) {
  const int ranks = rendezvous->ranks();
  std::unique_ptr<Heap> h(new Heap(rendezvous->rank()));
  h->bases_.assign(ranks, nullptr);
  // What one rank cannot do, none does.
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
  if (error != cudaSuccess) return Failed("clearing the heap", error);
  if (Status s = rendezvous->Barrier(timeout_ms); !s.ok()) return s;
  *heap = std::move(h);
  return Status::Ok();
}

}  // namespace gordian::runtime::cuda
