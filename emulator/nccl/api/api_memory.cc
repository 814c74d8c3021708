// Exports memory, registration, version, errors.
#include <cstdint>
#include <cstdlib>

#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/debug.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/group.h"

namespace emu = gordian::emu::nccl;
using emu::Comm;
using emu::GetEngine;

namespace {

// What NCCL's allocations are a multiple of; windows have to begin at a page.
constexpr size_t kGranularity = 2 << 20;

}  // namespace

extern "C" {

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  GetEngine().CountCall("ncclMemAlloc");
  if (ptr == nullptr || size == 0) return emu::Fail(ncclInvalidArgument, "ncclMemAlloc : no bytes");
  int device = GetEngine().CurrentDevice();
  if (device < 0) return emu::Fail(ncclUnhandledCudaError, "ncclMemAlloc : no CUDA device");
  *ptr = GetEngine().Allocate((size + kGranularity - 1) / kGranularity * kGranularity, device);
  if (*ptr != nullptr) return ncclSuccess;
  return emu::Fail(ncclUnhandledCudaError, "ncclMemAlloc : no memory for %zu bytes", size);
}

// Unmaps mapped memory without a wait; without cuMem the memory is cudaMalloc's.
ncclResult_t pncclMemFree(void* ptr) {
  GetEngine().CountCall("ncclMemFree");
  const char* cumem = std::getenv("NCCL_CUMEM_ENABLE");
  const bool mapped = cumem == nullptr || *cumem == '\0' || std::atoi(cumem) != 0;
  if (ptr == nullptr) return ncclSuccess;
  if ((mapped ? GetEngine().FreeWithoutWait(ptr) : GetEngine().Free(ptr)) == 0) return ncclSuccess;
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
  if (result == ncclSuccess) *handle = found->registrations().Add(buff, size);
  return result;
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  GetEngine().CountCall("ncclCommDeregister");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclCommDeregister", &found);
  if (result != ncclSuccess || found->registrations().Remove(handle)) return result;
  return emu::Fail(ncclInvalidUsage, "Deregister: Could not find handle");
}

// Collective: returns when all members have registered as many windows. An empty buffer gets no
// window and waits for no member.
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int winFlags) {
  GetEngine().CountCall("ncclCommWindowRegister");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclCommWindowRegister", &found);
  if (result == ncclSuccess) result = emu::CheckPointer(win, "ncclCommWindowRegister", "win");
  if (result == ncclSuccess) result = found->EnsureReady();
  if (result == ncclSuccess && buff != nullptr && size > 0) {
    int device = -1;
    if (reinterpret_cast<uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
      result = emu::Fail(ncclInvalidArgument, "Window address must be suitably aligned.");
    } else if (!GetEngine().IsDeviceAccessible(buff, size, &device) || device != found->device()) {
      result =
          emu::Fail(ncclInvalidArgument, "ncclCommWindowRegister : %p is no memory of device %d",
                    buff, found->device());
    }
  }
  if (result != ncclSuccess) return emu::NoteInGroup(result);
  *win = nullptr;
  if (buff == nullptr || size == 0) return ncclSuccess;
  return emu::NoteInGroup(emu::SubmitJob(found, found.get(), [found, buff, size, win, winFlags] {
    uint64_t ordinal = 0;
    ncclResult_t registered = found->AwaitWindow(buff, size, &ordinal);
    if (registered == ncclSuccess) {
      *win = found->registrations().AddWindow(ordinal, buff, size,
                                              (winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0);
    }
    return registered;
  }));
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  GetEngine().CountCall("ncclCommWindowDeregister");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclCommWindowDeregister", &found);
  if (result != ncclSuccess || win == nullptr || found->registrations().RemoveWindow(win)) {
    return result;
  }
  return emu::Fail(ncclInvalidArgument,
                   "ncclCommWindowDeregister : no window of this communicator");
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

void pncclResetDebugInit() {
  GetEngine().CountCall("ncclResetDebugInit");
  emu::ResetDebug();
}

// In no header, but NCCL's plugins call it.
__attribute__((visibility("default"))) void ncclResetDebugInitInternal() { emu::ResetDebug(); }

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
