// While one lives, calls of this thread do not end another thread's capture.
#ifndef GORDIAN_INTERPOSE_ROUTE_RELAXED_CAPTURE_H_
#define GORDIAN_INTERPOSE_ROUTE_RELAXED_CAPTURE_H_

#include "interpose/route/routed_comm.h"

namespace gordian::interpose {

class RelaxedCapture {
 public:
  RelaxedCapture() {
    if (g_cuda.exchange_capture_mode != nullptr) exchanged_ = Exchange() == 0;
  }
  ~RelaxedCapture() {
    if (exchanged_) Exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int Exchange() { return g_cuda.exchange_capture_mode(&mode_); }
  int mode_ = 2;  // cudaStreamCaptureModeRelaxed
  bool exchanged_ = false;
};

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_RELAXED_CAPTURE_H_
