// Handles of operations.
#include "runtime/api/handles.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

using gordian::runtime::Engine;
using gordian::runtime::Guarded;

grtResult_t grtSubmit(const grtOpDesc_t* desc, cudaStream_t stream, grtOp_t* handle) {
  if (desc == nullptr) return grtInvalidArgument;
  return gordian::runtime::Submit(*desc, stream, handle);
}

grtResult_t grtOpQuery(grtOp_t op) {
  if (op == nullptr) return grtInvalidArgument;
  if (op->task->done.load(std::memory_order_acquire) == 0) return grtInProgress;
  return op->task->result;
}

grtResult_t grtOpWait(grtOp_t op, uint64_t timeout_ns) {
  if (op == nullptr) return grtInvalidArgument;
  if (!Engine::Await(*op->task, gordian::runtime::DeadlineIn(timeout_ns))) return grtTimeout;
  return op->task->result;
}

grtResult_t grtOpOnDone(grtOp_t op, grtDoneFn fn, void* user) {
  if (op == nullptr || fn == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    Engine::OnDone(*op->task, [fn, user](grtResult_t result) { fn(user, result); });
    return grtSuccess;
  });
}

grtResult_t grtOpFree(grtOp_t op) {
  delete op;
  return grtSuccess;
}
