// Pointers to the driver's functions that the shim calls for itself. Found in a driver that the
// process has loaded; the shim loads none and creates no context.
#ifndef GORDIAN_INTERPOSE_DRIVER_API_H_
#define GORDIAN_INTERPOSE_DRIVER_API_H_

#include <cuda.h>

#include <atomic>

namespace gordian::interpose {

// The first three are always there once `known` is set; each of the others may be null.
struct DriverApi {
  std::atomic<uint32_t> known;
  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_query)(CUevent);
  CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*stream_capture_info)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                  const CUgraphNode**, size_t*);
  CUresult (*stream_get_context)(CUstream, CUcontext*);
  CUresult (*context_get_current)(CUcontext*);
  CUresult (*context_set_current)(CUcontext);
  CUresult (*context_push)(CUcontext);
  CUresult (*context_pop)(CUcontext*);
  CUresult (*context_get_device)(CUdevice*);
  CUresult (*device_of_context)(CUdevice*, CUcontext);  // since CUDA 13.0
  CUresult (*exchange_capture_mode)(CUstreamCaptureMode*);
  CUresult (*primary_get_state)(CUdevice, unsigned*, int*);
  CUresult (*primary_retain)(CUcontext*, CUdevice);
};
extern DriverApi g_driver;

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DRIVER_API_H_
