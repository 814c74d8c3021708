// Looks up at run time the calls of the CUDA driver that this library needs, so that a program that
// links it also starts on a machine without a driver, and can say that the driver is missing.
//
// Thread rule: any thread. Ownership: the table is static.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_DRIVER_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_DRIVER_H_

#include <cuda.h>

#include <string>

namespace gordian::runtime::cuda {

struct Driver {
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_address = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuMemRetainAllocationHandle) retain = nullptr;
  decltype(&::cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
  decltype(&::cuPointerGetAttribute) pointer_attribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) retain_context = nullptr;
  decltype(&::cuCtxPushCurrent) push_context = nullptr;
  decltype(&::cuCtxPopCurrent) pop_context = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  decltype(&::cuStreamWaitValue32) stream_wait_value = nullptr;
};

// Loads the driver once and never unloads it. Returns null without a usable driver; `why` then says
// what is missing.
const Driver* LoadDriver(std::string* why);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_DRIVER_H_
