// Initialisation, errors and devices.
#include <cstdio>
#include <cstring>

#include "emulator/cuda/driver_common.h"
#include "emulator/cuda/driver_entry_points.h"
#include "emulator/engine/device/device_info.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

extern "C" {

CUresult cuInit(unsigned flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : Result(TheEngine().Initialize());
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StatusText* found = FindStatusText(error);
  *text = found != nullptr && found->driver_name != nullptr ? found->text : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StatusText* found = FindStatusText(error);
  *text = found != nullptr ? found->driver_name : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckDevice(ordinal));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = TheEngine().DeviceCount();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, static_cast<size_t>(length), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  const DeviceShape shape{TheEngine().SmCount(), TheEngine().PhysicalDevice(device)};
  if (value == nullptr || !DeviceAttribute(shape, attribute, value)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeviceUuid(TheEngine().PhysicalDevice(device), uuid->bytes);
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = TheEngine().MemoryBytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  PciBusId(TheEngine().PhysicalDevice(device), text, static_cast<size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  GORDIAN_EMU_CHECK(CheckDevice(peer));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbol_status) {
  if (symbol == nullptr || function == nullptr || flags > 2) return CUDA_ERROR_INVALID_VALUE;
  int status = 0;
  *function = gordianEmuDriverEntryPoint(
      symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
  if (symbol_status != nullptr) {
    *symbol_status = static_cast<CUdriverProcAddressQueryResult>(status);
  }
  return CUDA_SUCCESS;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

}  // extern "C"
