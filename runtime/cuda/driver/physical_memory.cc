#include "runtime/cuda/driver/physical_memory.h"

#include <string.h>

#include <string>

namespace gordian::runtime::cuda {

Status DriverFailed(const char* what, int error) {
  return Status::Unavailable(std::string(what) + " failed with CUDA error " +
                             std::to_string(error));
}

Status PhysicalMemory::Create(const Driver* driver, int device, uint64_t bytes,
                              std::optional<PhysicalMemory>* memory) {
  CUmemAllocationProp properties;
  memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t unit = 0;
  if (const CUresult e =
          driver->granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
      e != CUDA_SUCCESS) {
    return DriverFailed("cuMemGetAllocationGranularity", e);
  }
  bytes = (bytes + unit - 1) / unit * unit;
  CUmemGenericAllocationHandle handle;
  if (const CUresult e = driver->create(&handle, bytes, &properties, 0); e != CUDA_SUCCESS) {
    return DriverFailed("cuMemCreate", e);
  }
  memory->emplace(driver, handle, bytes);
  return Status::Ok();
}

Status PhysicalMemory::Import(const Driver* driver, int descriptor, uint64_t bytes,
                              std::optional<PhysicalMemory>* memory) {
  CUmemGenericAllocationHandle handle;
  if (const CUresult e =
          driver->import_handle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      e != CUDA_SUCCESS) {
    return DriverFailed("cuMemImportFromShareableHandle", e);
  }
  memory->emplace(driver, handle, bytes);
  return Status::Ok();
}

Status PhysicalMemory::Export(int* descriptor) const {
  const CUresult e =
      driver_->export_handle(descriptor, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return e == CUDA_SUCCESS ? Status::Ok() : DriverFailed("cuMemExportToShareableHandle", e);
}

Status MapAt(const Driver& driver, CUdeviceptr at, uint64_t bytes,
             CUmemGenericAllocationHandle handle, int device) {
  if (const CUresult e = driver.map(at, bytes, 0, handle, 0); e != CUDA_SUCCESS) {
    return DriverFailed("cuMemMap", e);
  }
  const Status status = LetAccess(driver, at, bytes, device);
  if (!status.ok()) driver.unmap(at, bytes);
  return status;
}

Status LetAccess(const Driver& driver, CUdeviceptr at, uint64_t bytes, int device) {
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult e = driver.set_access(at, bytes, &access, 1);
  return e == CUDA_SUCCESS ? Status::Ok() : DriverFailed("cuMemSetAccess", e);
}

}  // namespace gordian::runtime::cuda
