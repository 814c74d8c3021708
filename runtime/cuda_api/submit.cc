// From a call to an enqueued operation, over GPUs: checks, groups, transfers with oneself.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/cpu/futex.h"
#include "runtime/cuda_api/deferred.h"
#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime::cuda {
namespace {

struct Call : OpCall {
  std::shared_ptr<CommState> comm;
  uint32_t priority = 0;
  cudaStream_t stream = nullptr;
  grtOrder_t order = grtOrderStrict;
  grtOp_t* handle = nullptr;
  Detached detached;  // once it is handed over

  Touched touched() const { return TouchedBy(kind, in, out, count, type, comm->ranks); }
  // It is handed over when its stream comes to it.
  bool IsBehind() const {
    return order == grtOrderDeferred || (order == grtOrderDetached && stream != nullptr);
  }

  bool IsWithSelf() const { return IsPointToPoint(kind) && peer == static_cast<int>(comm->rank); }
};

struct Group {
  int depth = 0;
  grtResult_t error = grtSuccess;
  std::vector<Call> calls;
};
thread_local Group t_group;

bool IsKnown(const grtOpDesc_t& d) {
  return d.kind >= grtKindAllReduce && d.kind <= grtKindRecv && d.type >= grtInt8 &&
         d.type <= grtFloat8e5m2 && d.op >= grtSum && d.op <= grtPreMulSum &&
         d.order >= grtOrderDefault && d.order <= grtOrderDetached;
}

grtResult_t Check(const grtOpDesc_t& d, cudaStream_t stream, grtOp_t* handle, Call* call) {
  if (!HasHead(&d) || d.comm == nullptr || !IsKnown(d)) return grtInvalidArgument;
  if (d.port != nullptr && d.port->comm->of_port != d.comm->comm) return grtInvalidArgument;
  // Sends and receives are numbered by the pair of ranks, whatever the port.
  const bool by_port = d.port != nullptr && d.kind != grtKindSend && d.kind != grtKindRecv;
  call->comm = by_port ? d.port->comm : d.comm->comm;
  const CommState& comm = *call->comm;
  grtOrder_t order = d.order != grtOrderDefault ? d.order : comm.config.order;
  if (order == grtOrderDefault) order = grtOrderStrict;
  call->order = order;
  call->kind = static_cast<OpKind>(d.kind);
  call->type = static_cast<DataType>(d.type);
  call->op = Reduces(call->kind) ? static_cast<Operator>(d.op) : Operator::kSum;
  call->peer = d.root_or_peer;
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
  if (d.count != 0 &&
      ((call->in == nullptr && HasInput(call->kind, d.root_or_peer, comm.rank)) ||
       (call->out == nullptr && HasOutput(call->kind, d.root_or_peer, comm.rank)))) {
    return grtInvalidArgument;
  }
  if (call->IsBehind() || (order == grtOrderStrict && handle != nullptr)) {
    // A graph's launches would hand nothing over, and an event that is captured cannot be queried.
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
    const auto receive = std::find_if(receives.begin(), receives.end(),
                                      [&](const Call& r) { return r.comm == send.comm; });
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

grtResult_t LaunchStrict(const Call& call) {
  CommState& comm = *call.comm;
  Communicator& communicator = *comm.ready.load(std::memory_order_acquire);
  comm.operations.fetch_add(1, std::memory_order_relaxed);
  bool captured = false;
  const Status launched = communicator.Launch(call, call.stream, &captured);
  if (captured) {
    comm.meeting->NoteCaptured();
  } else {
    const std::lock_guard<std::mutex> lock(comm.mutex);
    comm.streams.insert(call.stream);
  }
  return ToResult(launched, comm);
}

// One that the worker carries, as it is handed over.
struct Planned {
  Call* call = nullptr;
  WorkerOperation operation;
};

grtResult_t Plan(Call* call, std::vector<Planned>* planned) {
  Planned one;
  bool any = false;
  const Status status = call->comm->ready.load(std::memory_order_acquire)
                            ->PlanDetached(*call, 0, call->priority, &one.operation, &any);
  one.call = call;
  if (status.ok() && any) planned->push_back(std::move(one));
  return ToResult(status, *call->comm);
}

// Notes an operation that was handed over: destroying the communicator waits for it.
void Note(Call* call, const Detached& detached) {
  call->detached = detached;
  CommState& comm = *call->comm;
  comm.operations.fetch_add(1, std::memory_order_relaxed);
  const int sequence =
      IsPointToPoint(call->kind) ? 1 + 2 * call->peer + (call->kind == OpKind::kRecv ? 1 : 0) : 0;
  const std::lock_guard<std::mutex> lock(comm.mutex);
  comm.detached[sequence] = detached;
}

grtResult_t HandOver(const Planned& one) {
  Detached detached;
  const Status status =
      one.call->comm->process->domain().worker()->Submit(one.operation, &detached);
  if (status.ok()) Note(one.call, detached);
  return ToResult(status, *one.call->comm);
}

// Those behind one stream's work, together.
grtResult_t HandOverBehind(Process* process, cudaStream_t stream,
                           const std::vector<Planned>& planned) {
  std::vector<WorkerOperation> operations;
  for (const Planned& one : planned) {
    if (one.call->order == grtOrderDeferred) {
      const grtResult_t result =
          Deferred::Get().JoinIfConflict(process, stream, one.call->touched());
      if (result != grtSuccess) return result;
    }
    operations.push_back(one.operation);
  }
  process->domain().Foreign(stream);
  std::vector<Detached> handles;
  const Status status = process->domain().worker()->SubmitBehind(operations, stream, &handles);
  if (!status.ok()) return ToResult(status, *planned.front().call->comm);
  for (size_t i = 0; i < handles.size(); ++i) Note(planned[i].call, handles[i]);
  return grtSuccess;
}

grtResult_t GiveHandle(const Call& call) {
  const auto op = std::make_shared<Operation>();
  op->comm = call.comm;
  op->detached = call.detached;
  if (call.order == grtOrderStrict || call.IsWithSelf()) {
    cudaError_t e = cudaEventCreateWithFlags(&op->event, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventRecord(op->event, call.stream);
    if (e != cudaSuccess) return grtUnhandledCudaError;
  }
  *call.handle = new grtOpOpaque{op};
  return grtSuccess;
}

// Whether a group's operations need an order among themselves, which a group does not give: it
// hands its deferred operations over before it launches the strict ones, and waits for them only at
// its end.
bool NeedsOrder(const std::vector<Call>& calls) {
  for (const Call& deferred : calls) {
    if (deferred.order != grtOrderDeferred) continue;
    for (const Call& other : calls) {
      if (other.order == grtOrderStrict && other.stream == deferred.stream &&
          (Disturbs(deferred.touched(), other.touched()) ||
           Disturbs(other.touched(), deferred.touched()))) {
        return true;
      }
    }
  }
  return false;
}

// By itself, the usual one. With the communicator's device current.
grtResult_t RunStrict(const Call& call) {
  if (call.IsWithSelf()) return grtInvalidUsage;  // it would wait for itself
  grtResult_t result = Deferred::Get().Join(call.comm->process, call.stream);
  if (result == grtSuccess) result = LaunchStrict(call);
  return result == grtSuccess && call.handle != nullptr ? GiveHandle(call) : result;
}

// Of one device.
grtResult_t Run(std::vector<Call> calls, bool group) {
  Process* const process = calls.front().comm->process;
  const OnDevice on(process->device());
  Domain& domain = process->domain();
  grtResult_t result = grtSuccess;
  if (!group && calls.front().IsWithSelf()) return grtInvalidUsage;
  if (group && NeedsOrder(calls)) return grtInvalidUsage;
  if (group) {
    for (const Call& call :
         calls) {  // copies wait for what was deferred before, as strict operations do
      if (call.IsWithSelf() && result == grtSuccess)
        result = Deferred::Get().Join(process, call.stream);
    }
    if (result == grtSuccess) result = CopySelf(&calls);
    if (result != grtSuccess) return result;
  }
  // Plan first all that can be refused: nothing has begun then.
  std::vector<Planned> now;
  std::map<cudaStream_t, std::vector<Planned>> behind;
  std::set<cudaStream_t> strict, deferred;
  for (Call& call : calls) {
    if (call.IsWithSelf()) continue;
    if (call.order == grtOrderStrict) strict.insert(call.stream);
    if (call.order == grtOrderDeferred) deferred.insert(call.stream);
    if (call.order != grtOrderStrict)
      result = Plan(&call, call.IsBehind() ? &behind[call.stream] : &now);
    if (result != grtSuccess) return result;
  }
  if (group && !domain.GroupStart().ok()) return grtInvalidUsage;
  for (const auto& [stream, planned] : behind) {
    if (result == grtSuccess && !planned.empty()) result = HandOverBehind(process, stream, planned);
  }
  for (const cudaStream_t stream : strict) {
    if (result == grtSuccess) result = Deferred::Get().Join(process, stream);
  }
  // Strict ones of a group are only noted here; those of the worker begin at once, so they come
  // when none of these can be refused any more.
  for (const Call& call : calls) {
    if (result == grtSuccess && call.order == grtOrderStrict && !call.IsWithSelf())
      result = LaunchStrict(call);
  }
  for (const Planned& one : now) {
    if (result == grtSuccess) result = HandOver(one);
  }
  if (group && result != grtSuccess) {
    domain.GroupCancel();  // a part of a group would wait for the rest
  } else if (group) {
    const Status ended = domain.GroupEnd();
    if (!calls.empty()) result = ToResult(ended, *calls.front().comm);
  }
  for (const Call& call : calls) {
    if (call.order == grtOrderDeferred)
      Deferred::Get().Add(process, call.stream, call.detached, call.touched());
  }
  for (const cudaStream_t stream : deferred) {
    if (group && result == grtSuccess) result = Deferred::Get().Join(process, stream);
  }
  for (const Call& call : calls) {
    if (call.handle != nullptr && result == grtSuccess) result = GiveHandle(call);
  }
  return result;
}

// A group may have operations of several devices: each device's are published and launched
// together. Launching waits for no other rank, so one thread can do it for all.
grtResult_t RunGroup(std::vector<Call> calls) {
  grtResult_t result = grtSuccess;
  while (!calls.empty()) {
    const auto others = std::stable_partition(
        calls.begin(), calls.end(), [first = calls.front().comm->process](const Call& call) {
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

}  // namespace
}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtSubmit(const grtOpDesc_t* desc, cudaStream_t stream, grtOp_t* handle) {
  if (desc == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    std::optional<OnDevice> on;
    if (HasHead(desc) && desc->comm != nullptr) on.emplace(desc->comm->comm->process->device());
    Call call;
    const grtResult_t result = Check(*desc, stream, handle, &call);
    if (t_group.depth > 0) {
      if (result != grtSuccess && t_group.error == grtSuccess) t_group.error = result;
      if (result == grtSuccess) t_group.calls.push_back(std::move(call));
      return result;
    }
    if (result != grtSuccess) return result;
    if (call.order == grtOrderStrict) return RunStrict(call);
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

grtResult_t grtStreamJoin(cudaStream_t stream) {
  return Guarded([&] {
    const RelaxedCapture relaxed;
    Process* const process = Process::Of(stream);
    return process == nullptr ? grtSuccess : Deferred::Get().Join(process, stream);
  });
}

int grtCanCapture(void) { return 1; }
