// Handles of operations, over GPUs.
#include <time.h>

#include <algorithm>

#include "runtime/cpu/futex.h"
#include "runtime/cuda_api/deferred.h"
#include "runtime/cuda_api/done_watch.h"
#include "runtime/cuda_api/handles.h"

namespace gordian::runtime::cuda {
namespace {

grtResult_t ResultOf(const Operation& op, bool* done) {
  const RelaxedCapture relaxed;
  if (op.event != nullptr) {
    const cudaError_t e = cudaEventQuery(op.event);
    *done = e != cudaErrorNotReady;
    if (e != cudaSuccess && e != cudaErrorNotReady) return grtUnhandledCudaError;
  } else {
    *done = op.detached.IsDone();
  }
  if (!*done) return grtInProgress;
  // An operation that was done before its communicator failed gets the error too.
  const grtResult_t error = op.comm->error();
  return error == grtSuccess && !op.detached.Result().ok() ? grtUnhandledCudaError : error;
}

}  // namespace

Operation::~Operation() {
  if (comm == nullptr) return;
  const OnDevice on(comm->process->device());
  if (event != nullptr) cudaEventDestroy(event);
  comm.reset();  // it may be the last that holds the communicator
}

}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtOpQuery(grtOp_t op) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    bool done = false;
    return ResultOf(*op->operation, &done);
  });
}

grtResult_t grtOpWait(grtOp_t op, uint64_t timeout_ns) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    // The worker's own wait looks at a word before it sleeps. However it ends: what there is to say
    // of it is said below.
    if (op->operation->event == nullptr) {
      [[maybe_unused]] const gordian::Status ended = op->operation->detached.Wait(timeout_ns);
    }
    // The driver announces no end, so poll; the pauses grow to a millisecond.
    for (int64_t pause_ns = 2000;; pause_ns = std::min<int64_t>(pause_ns * 2, 1'000'000)) {
      bool done = false;
      const grtResult_t result = ResultOf(*op->operation, &done);
      if (done || result != grtInProgress) return result;
      const int64_t left_ns = deadline_ns - NowNs();
      if (left_ns <= 0) return grtTimeout;
      const timespec pause{0, static_cast<long>(std::min(pause_ns, left_ns))};
      nanosleep(&pause, nullptr);
    }
  });
}

grtResult_t grtOpStreamWait(grtOp_t op, cudaStream_t stream) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const Operation& operation = *op->operation;
    if (operation.event == nullptr) return StreamWaits({operation.detached}, stream);
    // A default stream is that of the thread's device, not of the operation's.
    Process* const process = Process::Of(stream);
    const OnDevice on((process != nullptr ? process : operation.comm->process)->device());
    if (process != nullptr) process->domain().Foreign(stream);
    return cudaStreamWaitEvent(stream, operation.event, 0) == cudaSuccess ? grtSuccess
                                                                          : grtUnhandledCudaError;
  });
}

grtResult_t grtOpOnDone(grtOp_t op, grtDoneFn fn, void* user) {
  if (op == nullptr || fn == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    bool is_done = false;
    const grtResult_t now = ResultOf(*op->operation, &is_done);
    if (is_done) {
      fn(user, now);
      return grtSuccess;
    }
    const auto ask = [operation = op->operation](grtResult_t* result) {
      // Not on the thread's default device, which would get a context.
      const OnDevice on(operation->comm->process->device());
      bool done = false;
      *result = ResultOf(*operation, &done);
      return done;
    };
    WhenDone(ask, [fn, user](grtResult_t result) { fn(user, result); });
    return grtSuccess;
  });
}

grtResult_t grtOpFree(grtOp_t op) {
  delete op;
  return grtSuccess;
}
