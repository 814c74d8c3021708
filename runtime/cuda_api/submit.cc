// From a call to an enqueued operation, over GPUs: checks, groups, transfers with oneself, handles.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/cpu/futex.h"
#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime::cuda {
namespace {

struct Call {
  std::shared_ptr<CommState> comm;
  OpKind kind = OpKind::kNone;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;
  DataType type = DataType::kFloat;
  Operator op = Operator::kSum;
  int root_or_peer = 0;
  uint64_t scalar = 0;
  uint32_t priority = 0;
  cudaStream_t stream = nullptr;
  bool detached = false;
  grtOp_t* handle = nullptr;

  bool IsWithSelf() const { return IsPointToPoint(kind) && root_or_peer == static_cast<int>(comm->rank); }
};

struct Group {
  int depth = 0;
  grtResult_t error = grtSuccess;
  std::vector<Call> calls;
};
thread_local Group t_group;

bool IsKnown(const grtOpDesc_t& d) {
  return d.kind >= grtKindAllReduce && d.kind <= grtKindRecv && d.type >= grtInt8 && d.type <= grtFloat8e5m2 &&
         d.op >= grtSum && d.op <= grtPreMulSum && d.order >= grtOrderDefault && d.order <= grtOrderDetached;
}

grtResult_t Check(const grtOpDesc_t& d, cudaStream_t stream, grtOp_t* handle, Call* call) {
  if (!HasHead(&d) || d.comm == nullptr || !IsKnown(d)) return grtInvalidArgument;
  if (d.port != nullptr) return grtNotSupported;
  call->comm = d.comm->comm;
  const CommState& comm = *call->comm;
  grtOrder_t order = d.order != grtOrderDefault ? d.order : comm.config.order;
  if (order == grtOrderDefault) order = grtOrderStrict;
  // Deferred operations, and detached ones behind a stream's work, would need a kernel that submits them.
  if (order == grtOrderDeferred || (order == grtOrderDetached && stream != nullptr)) return grtNotSupported;
  call->detached = order == grtOrderDetached;
  call->kind = static_cast<OpKind>(d.kind);
  call->type = static_cast<DataType>(d.type);
  call->op = Reduces(call->kind) ? static_cast<Operator>(d.op) : Operator::kSum;
  call->root_or_peer = d.root_or_peer;
  call->count = d.count;
  call->priority = d.priority;
  call->stream = stream;
  call->handle = handle;
  const bool names_rank = HasRoot(call->kind) || IsPointToPoint(call->kind);
  if (names_rank && (d.root_or_peer < 0 || static_cast<uint32_t>(d.root_or_peer) >= comm.ranks)) {
    return grtInvalidArgument;
  }
  if (call->op == Operator::kPreMulSum) {
    if (d.scalar == nullptr) return grtInvalidArgument;
    std::memcpy(&call->scalar, d.scalar, SizeOf(call->type));
  }
  if (d.count > UINT64_MAX / SizeOf(call->type) / comm.ranks) return grtInvalidArgument;
  if (HasInput(call->kind, d.root_or_peer, comm.rank)) call->in = d.in;
  if (HasOutput(call->kind, d.root_or_peer, comm.rank)) call->out = d.out;
  if (d.count != 0 && ((call->in == nullptr && HasInput(call->kind, d.root_or_peer, comm.rank)) ||
                       (call->out == nullptr && HasOutput(call->kind, d.root_or_peer, comm.rank)))) {
    return grtInvalidArgument;
  }
  if (!call->detached && handle != nullptr) {
    // Nobody could ask an event that is captured.
    bool captured = false;
    if (IsCaptured(stream, &captured) != cudaSuccess || captured) return grtNotSupported;
  }
  return MakeReady(call->comm);
}

// The sends and receives of a group with oneself, in their order: copies on the receiver's stream.
grtResult_t CopySelf(std::vector<Call>* calls) {
  std::vector<Call> rest, sends, receives;
  for (Call& call : *calls) {
    if (!call.IsWithSelf()) {
      rest.push_back(std::move(call));
    } else {
      (call.kind == OpKind::kSend ? sends : receives).push_back(std::move(call));
    }
  }
  for (const Call& send : sends) {
    Domain& domain = send.comm->process->domain();
    const auto receive = std::find_if(receives.begin(), receives.end(), [&](const Call& r) { return r.comm == send.comm; });
    if (receive == receives.end()) return grtInvalidUsage;  // it would wait for itself
    const uint64_t bytes = send.count * SizeOf(send.type);
    if (bytes != receive->count * SizeOf(receive->type)) return grtMismatch;
    cudaError_t e = cudaSuccess;
    if (send.stream != receive->stream) {
      cudaEvent_t before = nullptr;
      e = cudaEventCreateWithFlags(&before, cudaEventDisableTiming);
      if (e == cudaSuccess) e = cudaEventRecord(before, send.stream);
      if (e == cudaSuccess) e = cudaStreamWaitEvent(receive->stream, before, 0);
      if (before != nullptr) cudaEventDestroy(before);
    }
    domain.Foreign(receive->stream);
    if (e == cudaSuccess && bytes != 0) {
      e = cudaMemcpyAsync(receive->out, send.in, bytes, cudaMemcpyDeviceToDevice, receive->stream);
    }
    if (e == cudaSuccess && send.stream != receive->stream) {
      cudaEvent_t after = nullptr;
      e = cudaEventCreateWithFlags(&after, cudaEventDisableTiming);
      if (e == cudaSuccess) e = cudaEventRecord(after, receive->stream);
      if (e == cudaSuccess) e = cudaStreamWaitEvent(send.stream, after, 0);
      if (after != nullptr) cudaEventDestroy(after);
      domain.Foreign(send.stream);
    }
    if (e != cudaSuccess) return grtUnhandledCudaError;
    // Their handles, if they have any, are made with the others'.
    rest.push_back(send);
    rest.push_back(*receive);
    receives.erase(receive);
  }
  *calls = std::move(rest);
  return receives.empty() ? grtSuccess : grtInvalidUsage;
}

grtResult_t ToResult(const Status& status, const CommState& comm) {
  if (status.ok()) return grtSuccess;
  if (const grtResult_t error = comm.error(); error != grtSuccess) return error;
  if (status.code() == StatusCode::kInvalidArgument) return grtInvalidArgument;
  return status.code() == StatusCode::kUnavailable ? grtSystemError : grtUnhandledCudaError;
}

grtResult_t Enqueue(Call* call, Detached* detached) {
  CommState& comm = *call->comm;
  Communicator& communicator = *comm.ready.load(std::memory_order_acquire);
  comm.operations.fetch_add(1, std::memory_order_relaxed);
  if (call->detached) {
    const grtResult_t result = ToResult(communicator.Detach(call->kind, call->in, call->out, call->count, call->type, call->op,
                                                            call->root_or_peer, 0, detached, call->scalar, call->priority),
                                        comm);
    if (result != grtSuccess) return result;
    const bool pair = call->kind == OpKind::kSend || call->kind == OpKind::kRecv;
    const int sequence = pair ? 1 + 2 * static_cast<int>(call->root_or_peer) + (call->kind == OpKind::kRecv ? 1 : 0) : 0;
    const std::lock_guard<std::mutex> lock(comm.mutex);
    comm.detached[sequence] = *detached;
    return grtSuccess;
  }
  bool captured = false;
  const Status launched = communicator.Launch(call->kind, call->in, call->out, call->count, call->type, call->op,
                                              call->root_or_peer, call->stream, call->scalar, &captured);
  if (captured) {
    comm.meeting->NoteCaptured();
  } else {
    const std::lock_guard<std::mutex> lock(comm.mutex);
    comm.streams.insert(call->stream);
  }
  return ToResult(launched, comm);
}

grtResult_t GiveHandle(const Call& call, Detached detached) {
  auto op = std::make_unique<grtOpOpaque>();
  op->comm = call.comm;
  op->detached = std::move(detached);
  if (!call.detached) {
    cudaError_t e = cudaEventCreateWithFlags(&op->event, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventRecord(op->event, call.stream);
    if (e != cudaSuccess) return grtUnhandledCudaError;
  }
  *call.handle = op.release();
  return grtSuccess;
}

// Of one device.
grtResult_t Run(std::vector<Call> calls, bool group) {
  const OnDevice on(calls.front().comm->process->device());
  Domain& domain = calls.front().comm->process->domain();
  grtResult_t result = grtSuccess;
  if (group) {
    result = CopySelf(&calls);
    if (result != grtSuccess) return result;
    if (Status s = domain.GroupStart(); !s.ok()) return grtInvalidUsage;
  } else if (calls.front().IsWithSelf()) {
    return grtInvalidUsage;  // it would wait for itself
  }
  std::vector<Detached> detached(calls.size());
  // Strict ones of a group are only noted here; detached ones begin at once, so they come when none of those can be
  // refused any more.
  for (const bool begins : {false, true}) {
    for (size_t i = 0; i < calls.size() && result == grtSuccess; ++i) {
      if (!calls[i].IsWithSelf() && calls[i].detached == begins) result = Enqueue(&calls[i], &detached[i]);
    }
  }
  if (group && result != grtSuccess) {
    domain.GroupCancel();  // a part of a group would wait for the rest
  } else if (group) {
    const Status ended = domain.GroupEnd();
    if (!calls.empty()) result = ToResult(ended, *calls.front().comm);
  }
  for (size_t i = 0; i < calls.size() && result == grtSuccess; ++i) {
    if (calls[i].handle != nullptr) result = GiveHandle(calls[i], std::move(detached[i]));
  }
  return result;
}

// A group may have operations of several devices: each device's are published and launched together. Launching
// waits for nobody, so one thread can do it for all.
grtResult_t RunGroup(std::vector<Call> calls) {
  grtResult_t result = grtSuccess;
  while (!calls.empty()) {
    const auto others = std::stable_partition(calls.begin(), calls.end(), [first = calls.front().comm->process](const Call& call) {
      return call.comm->process == first;
    });
    std::vector<Call> rest(std::make_move_iterator(others), std::make_move_iterator(calls.end()));
    calls.erase(others, calls.end());
    const grtResult_t one = Run(std::move(calls), true);
    if (result == grtSuccess) result = one;
    calls = std::move(rest);
  }
  return result;
}

grtResult_t ResultOf(const grtOpOpaque& op, bool* done) {
  const RelaxedCapture relaxed;
  if (op.event != nullptr) {
    const cudaError_t e = cudaEventQuery(op.event);
    *done = e != cudaErrorNotReady;
    if (e != cudaSuccess && e != cudaErrorNotReady) return grtUnhandledCudaError;
  } else {
    *done = op.detached.IsDone();
  }
  if (!*done) return grtInProgress;
  // Of an operation that was done before its communicator failed this says too much.
  return op.comm->error();
}

}  // namespace
}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtSubmit(const grtOpDesc_t* desc, cudaStream_t stream, grtOp_t* handle) {
  if (desc == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    const RelaxedCapture relaxed;
    Call call;
    const grtResult_t result = Check(*desc, stream, handle, &call);
    if (t_group.depth > 0) {
      if (result != grtSuccess && t_group.error == grtSuccess) t_group.error = result;
      if (result == grtSuccess) t_group.calls.push_back(std::move(call));
      return result;
    }
    if (result != grtSuccess) return result;
    std::vector<Call> calls;
    calls.push_back(std::move(call));
    return Run(std::move(calls), false);
  });
}

grtResult_t grtGroupStart(void) {
  ++t_group.depth;
  return grtSuccess;
}

grtResult_t grtGroupEnd(void) {
  if (t_group.depth == 0) return grtInvalidUsage;
  if (--t_group.depth > 0) return grtSuccess;
  const grtResult_t error = std::exchange(t_group.error, grtSuccess);
  std::vector<Call> calls = std::exchange(t_group.calls, {});
  if (error != grtSuccess || calls.empty()) return error;
  return Guarded([&] {
    const RelaxedCapture relaxed;
    return RunGroup(std::move(calls));
  });
}

grtResult_t grtOpQuery(grtOp_t op) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    bool done = false;
    return ResultOf(*op, &done);
  });
}

grtResult_t grtOpWait(grtOp_t op, uint64_t timeout_ns) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&]() -> grtResult_t {
    const int64_t deadline_ns = DeadlineIn(timeout_ns);
    // The driver tells nobody; waits grow to a millisecond.
    for (int64_t pause_ns = 2000;; pause_ns = std::min<int64_t>(pause_ns * 2, 1'000'000)) {
      bool done = false;
      const grtResult_t result = ResultOf(*op, &done);
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
  if (op->event == nullptr) return grtNotSupported;
  return Guarded([&] {
    if (Process* process = Process::Of(stream)) process->domain().Foreign(stream);
    return cudaStreamWaitEvent(stream, op->event, 0) == cudaSuccess ? grtSuccess : grtUnhandledCudaError;
  });
}

grtResult_t grtOpOnDone(grtOp_t op, grtDoneFn fn, void*) {
  return op == nullptr || fn == nullptr ? grtInvalidArgument : grtNotSupported;
}

grtResult_t grtOpFree(grtOp_t op) {
  delete op;
  return grtSuccess;
}

// There are no deferred operations.
grtResult_t grtStreamJoin(cudaStream_t) { return grtSuccess; }

int grtCanCapture(void) { return 1; }
