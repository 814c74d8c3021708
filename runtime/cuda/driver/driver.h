// The calls of the CUDA driver that the heap, registered memory, changes of the device and the
// worker need, found at run time: a program that carries the runtime starts on machines without a
// driver too, and says so.
//
// Thread rule: any thread.
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

// Null, and `why` says what is missing, where there is no driver. Loaded once, never unloaded.
const Driver* LoadDriver(std::string* why);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_DRIVER_H_
