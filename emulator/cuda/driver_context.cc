// Contexts. The emulator has one set of streams and memory per device, whatever the context.
#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = static_cast<CUcontext>(TheEngine().PrimaryContext(device));
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return CheckDevice(device); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return Result(TheEngine().ResetDevice(device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) { return CheckDevice(device); }

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = Result(TheEngine().CreateContext(device, &made));
  *context = static_cast<CUcontext>(made);
  return result;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().DestroyContext(context));
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = static_cast<CUcontext>(TheEngine().CurrentContext());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().SetCurrentContext(context));
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().PushContext(context));
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  void* popped = nullptr;
  const CUresult result = Result(TheEngine().PopContext(&popped));
  if (result == CUDA_SUCCESS && context != nullptr) *context = static_cast<CUcontext>(popped);
  return result;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = TheEngine().CurrentDevice();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (context != nullptr && TheEngine().DeviceOfContext(context) < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Result(TheEngine().SynchronizeDevice(TheEngine().CurrentDevice()));
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  const int device = TheEngine().DeviceOfContext(peer);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : Result(TheEngine().EnablePeer(device));
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  GORDIAN_EMU_CHECK(CheckContext());
  const int device = TheEngine().DeviceOfContext(peer);
  return device < 0 ? CUDA_ERROR_INVALID_CONTEXT : Result(TheEngine().DisablePeer(device));
}

}  // extern "C"
