// Exported: memory, registration, version, errors.
#include <atomic>
#include <cstdint>

#include "emulator/nccl/arguments.h"
#include "emulator/nccl/entry.h"
#include "emulator/nccl/error.h"

namespace emu = gordian::emu::nccl;
using emu::Comm;
using emu::GetEngine;

namespace {

// Registration changes nothing here; the handles are only distinct and not null.
void* NextHandle() {
  static std::atomic<uintptr_t> next{0x1000};
  return reinterpret_cast<void*>(next.fetch_add(16));
}

}  // namespace

extern "C" {

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  GetEngine().CountCall("ncclMemAlloc");
  if (ptr == nullptr || size == 0) return emu::Fail(ncclInvalidArgument, "ncclMemAlloc : no bytes");
  int device = GetEngine().CurrentDevice();
  if (device < 0) return emu::Fail(ncclUnhandledCudaError, "ncclMemAlloc : no CUDA device");
  *ptr = GetEngine().Allocate(size, device);
  if (*ptr != nullptr) return ncclSuccess;
  return emu::Fail(ncclUnhandledCudaError, "ncclMemAlloc : no memory for %zu bytes", size);
}

ncclResult_t pncclMemFree(void* ptr) {
  GetEngine().CountCall("ncclMemFree");
  if (ptr == nullptr || GetEngine().Free(ptr) == 0) return ncclSuccess;
  return emu::Fail(ncclUnhandledCudaError, "ncclMemFree : %p was not allocated", ptr);
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  GetEngine().CountCall("ncclCommRegister");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclCommRegister", &found);
  if (result == ncclSuccess) result = emu::CheckPointer(handle, "ncclCommRegister", "handle");
  if (result == ncclSuccess) result = emu::CheckPointer(buff, "ncclCommRegister", "buff");
  if (result == ncclSuccess && size == 0) {
    result = emu::Fail(ncclInvalidArgument, "ncclCommRegister : no bytes");
  }
  if (result == ncclSuccess) *handle = NextHandle();
  return result;
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* /*handle*/) {
  GetEngine().CountCall("ncclCommDeregister");
  std::shared_ptr<Comm> found;
  return emu::FindComm(comm, "ncclCommDeregister", &found);
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int /*winFlags*/) {
  GetEngine().CountCall("ncclCommWindowRegister");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclCommWindowRegister", &found);
  if (result == ncclSuccess) result = emu::CheckPointer(win, "ncclCommWindowRegister", "win");
  if (result == ncclSuccess) result = emu::CheckPointer(buff, "ncclCommWindowRegister", "buff");
  if (result == ncclSuccess && size == 0) {
    result = emu::Fail(ncclInvalidArgument, "ncclCommWindowRegister : no bytes");
  }
  if (result == ncclSuccess) *win = static_cast<ncclWindow_t>(NextHandle());
  return result;
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t /*win*/) {
  GetEngine().CountCall("ncclCommWindowDeregister");
  std::shared_ptr<Comm> found;
  return emu::FindComm(comm, "ncclCommWindowDeregister", &found);
}

ncclResult_t pncclGetVersion(int* version) {
  GetEngine().CountCall("ncclGetVersion");
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* pncclGetErrorString(ncclResult_t result) {
  GetEngine().CountCall("ncclGetErrorString");
  return emu::ErrorString(result);
}

const char* pncclGetLastError(ncclComm_t /*comm*/) {
  GetEngine().CountCall("ncclGetLastError");
  return emu::LastError();
}

// NCCL_DEBUG is read at each message, so there is nothing to reset.
void pncclResetDebugInit() { GetEngine().CountCall("ncclResetDebugInit"); }

EMU_NCCL_ALIAS(ncclMemAlloc);
EMU_NCCL_ALIAS(ncclMemFree);
EMU_NCCL_ALIAS(ncclCommRegister);
EMU_NCCL_ALIAS(ncclCommDeregister);
EMU_NCCL_ALIAS(ncclCommWindowRegister);
EMU_NCCL_ALIAS(ncclCommWindowDeregister);
EMU_NCCL_ALIAS(ncclGetVersion);
EMU_NCCL_ALIAS(ncclGetErrorString);
EMU_NCCL_ALIAS(ncclGetLastError);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EMU_NCCL_ALIAS(ncclResetDebugInit);
#pragma GCC diagnostic pop

}  // extern "C"
