// Pointers to the driver's functions that the shim calls for itself. Found in a driver that the
// process has loaded; the shim loads none and creates no context.
#ifndef GORDIAN_INTERPOSE_PROGRESS_DRIVER_API_H_
#define GORDIAN_INTERPOSE_PROGRESS_DRIVER_API_H_

#include <cuda.h>

#include <atomic>

namespace gordian::interpose {

// The first three are always there once `known` is set; each of the others may be null.
struct DriverApi {
  std::atomic<uint32_t> known;
  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_query)(CUevent);
  CUresult (*event_record_with_flags)(CUevent, CUstream, unsigned);
  CUresult (*event_destroy)(CUevent);
  CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*stream_capture_info)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                  const CUgraphNode**, size_t*);
  CUresult (*stream_get_context)(CUstream, CUcontext*);
  CUresult (*stream_get_id)(CUstream, unsigned long long*);
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

// Pushes a context for one scope where it is not the current one already.
class ContextScope {
 public:
  explicit ContextScope(void* wanted) {
    CUcontext current = nullptr;
    if (wanted == nullptr) return;
    if (g_driver.context_get_current != nullptr &&
        g_driver.context_get_current(&current) == CUDA_SUCCESS && current == wanted) {
      return;
    }
    pushed_ = g_driver.context_push != nullptr && g_driver.context_pop != nullptr &&
              g_driver.context_push(static_cast<CUcontext>(wanted)) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) g_driver.context_pop(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_PROGRESS_DRIVER_API_H_
