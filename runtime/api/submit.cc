// From a call to a published operation: checks, groups, orders.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "runtime/api/handles.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/cpu/streams/stream_order.h"

namespace gordian::runtime {
namespace {

// Bytes from which an input that all members can reach is read in place.
constexpr uint64_t kReadInPlace = 8 << 10;

struct Call {
  std::shared_ptr<Task> task;
  cudaStream_t stream = nullptr;
  grtOrder_t order = grtOrderStrict;
  grtOp_t* handle = nullptr;
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

// Which inputs stay where they are. Equal on all members is not needed.
void ChooseAccess(const Comm& comm, Task* task) {
  OpView& v = task->view;
  if (!comm.IsLocal()) return;
  const uint32_t n = v.port.geometry().members;
  const bool publishes = (v.publishers >> v.me & 1) != 0;
  if (!publishes) return;
  const auto bytes = static_cast<uint64_t>(task->reads.last - task->reads.first);
  const bool one_way = (v.readers | v.publishers) != (v.readers & v.publishers);
  if (one_way) {
    // A sender that fits its lane need not wait for anyone, and so must not.
    v.in_here = ChannelChunks(v.chunks, 0, v.desc.nchan) > kSlots;
  } else {
    const bool in_place = (v.desc.flags & kOpInPlace) != 0;
    const bool overwritten =
        in_place && !v.chunks.two_shot &&
        (v.desc.kind == OpKind::kAllReduce || v.desc.kind == OpKind::kAllToAll);
    v.in_here = bytes >= kReadInPlace && !overwritten && n > 1;
    v.out_here = v.in_here && v.chunks.two_shot;
  }
}

grtResult_t MakeTask(const grtOpDesc_t& d, std::shared_ptr<Task>* out) {
  if (!HasHead(&d) || d.comm == nullptr || !IsKnown(d)) return grtInvalidArgument;
  const std::shared_ptr<Comm>& comm = d.comm->comm;
  if (comm->error() != grtSuccess) return comm->error();
  const auto kind = static_cast<OpKind>(d.kind);
  const auto n = comm->ranks();
  const bool names_rank = HasRoot(kind) || IsPointToPoint(kind);
  if (names_rank && (d.root_or_peer < 0 || static_cast<uint32_t>(d.root_or_peer) >= n)) {
    return grtInvalidArgument;
  }
  auto task = std::make_shared<Task>();
  task->comm = comm;
  task->name = {{d.reserved[0], d.reserved[1]}};
  OpView& v = task->view;
  OpDesc& op = v.desc;
  op.kind = kind;
  op.dtype = static_cast<DataType>(d.type);
  op.redop = Reduces(kind) ? static_cast<Operator>(d.op) : Operator::kSum;
  op.root_or_peer = d.root_or_peer;
  op.priority = d.priority;
  op.count = d.count;
  if (op.redop == Operator::kPreMulSum && Reduces(kind)) {
    if (d.scalar == nullptr) return grtInvalidArgument;
    std::memcpy(&op.scalar, d.scalar, SizeOf(op.dtype));
  }
  const uint32_t rank = comm->rank();
  const uint64_t size = SizeOf(op.dtype);
  if (d.count > UINT64_MAX / size / n) return grtInvalidArgument;
  if (HasInput(kind, d.root_or_peer, rank)) {
    v.in = static_cast<const unsigned char*>(d.in);
    task->reads = {v.in, v.in + InputCount(kind, d.count, n) * size};
  }
  if (HasOutput(kind, d.root_or_peer, rank)) {
    v.out = static_cast<unsigned char*>(d.out);
    task->writes = {v.out, v.out + OutputCount(kind, d.count, n) * size};
  }
  if (d.count != 0 && ((v.in == nullptr && HasInput(kind, d.root_or_peer, rank)) ||
                       (v.out == nullptr && HasOutput(kind, d.root_or_peer, rank)))) {
    return grtInvalidArgument;
  }
  if (task->reads.Overlaps(task->writes)) op.flags |= kOpInPlace;
  if (IsPointToPoint(kind)) {
    const auto peer = static_cast<uint32_t>(d.root_or_peer);
    const bool sends = kind == OpKind::kSend;
    const grtResult_t result =
        comm->PairPort(sends ? rank : peer, sends ? peer : rank, sends, &task->port);
    if (result != grtSuccess) return result;
  } else {
    if (d.port != nullptr && d.port->comm != comm) return grtInvalidArgument;
    task->port = d.port != nullptr ? d.port->port : comm->main_port();
  }
  *out = std::move(task);
  return grtSuccess;
}

// Gives the operation its place in its port.
void Number(Task* task) {
  Port& port = *task->port;
  const Comm& comm = *task->comm;
  OpView& v = task->view;
  OpDesc& op = v.desc;
  {
    const std::lock_guard<std::mutex> lock(port.mutex);
    op.seq = port.next_seq++;
  }
  op.port = port.number;
  v.port = port.segment->view();
  v.me = port.me;
  v.abort_word = comm.abort_word();
  const uint32_t n = v.port.geometry().members;
  op.algo = ChooseAlgo(op.kind, op.dtype, op.count, n, comm.limits());
  op.nchan = ChooseChannels(op.kind, op.dtype, op.count, n, comm.limits());
  op.signature = Signature(op);
  Complete(&v);
  ChooseAccess(comm, task);
  task->channels.resize(op.nchan);
  task->channels_left = op.nchan;
}

grtResult_t Join(cudaStream_t stream, std::vector<std::shared_ptr<Task>> deferred) {
  if (deferred.empty()) return grtSuccess;
  auto unit = std::make_shared<Unit>();
  unit->stream = stream;
  unit->driver = &TheDriver();
  unit->joins = std::move(deferred);
  return unit->joins.front()->comm->engine()->Submit(unit);
}

// Calls of one stream, order and engine.
grtResult_t LaunchUnit(std::vector<std::shared_ptr<Task>> tasks, cudaStream_t stream,
                       grtOrder_t order, const std::shared_ptr<Gang>& gang,
                       const std::vector<std::shared_ptr<Task>>& others) {
  Engine* engine = tasks.front()->comm->engine();
  auto unit = std::make_shared<Unit>();
  unit->stream = stream;
  unit->driver = &TheDriver();
  unit->grace_ms = tasks.front()->comm->config().grace_ms;
  unit->tasks = std::move(tasks);
  if (order == grtOrderDetached && stream == nullptr) {
    engine->SubmitDetached(unit);
    return grtSuccess;
  }
  grtResult_t result = grtSuccess;
  if (order == grtOrderStrict) {
    unit->joins = StreamOrder::Get().TakeDeferred(stream);
    unit->joins.insert(unit->joins.end(), others.begin(), others.end());
    unit->gang = gang;
    result = engine->Submit(unit);
  } else {
    unit->strict = false;
    if (order == grtOrderDeferred) {
      for (const std::shared_ptr<Task>& task : unit->tasks) {
        if (!StreamOrder::Get().DeferredConflict(stream, task->reads, task->writes)) continue;
        result = Join(stream, StreamOrder::Get().TakeDeferred(stream));
        break;
      }
    }
    if (result == grtSuccess) result = engine->Submit(unit);
    if (result == grtSuccess && order == grtOrderDeferred) {
      for (const std::shared_ptr<Task>& task : unit->tasks) {
        StreamOrder::Get().AddDeferred(stream, task);
      }
    }
  }
  // The operations have taken their numbers, so other members would wait for them for ever: fail
  // their communicators.
  if (result != grtSuccess) {
    for (const std::shared_ptr<Task>& task : unit->tasks) task->comm->Fail(result);
  }
  return result;
}

// Communicators of a group whose strict operations stand on several streams.
struct Spread {
  std::set<cudaStream_t> streams;
  std::vector<std::shared_ptr<Task>> tasks;
  std::shared_ptr<Gang> gang;
};
std::map<const Comm*, Spread> SpreadComms(const std::vector<Call>& calls) {
  std::map<const Comm*, Spread> spread;
  for (const Call& call : calls) {
    if (call.order != grtOrderStrict) continue;
    Spread& s = spread[call.task->comm.get()];
    s.streams.insert(call.stream);
    s.tasks.push_back(call.task);
  }
  std::erase_if(spread, [](const auto& each) { return each.second.streams.size() < 2; });
  for (auto& [comm, s] : spread) {
    s.gang = std::make_shared<Gang>();
    s.gang->turns_left = static_cast<uint32_t>(s.streams.size());
  }
  return spread;
}

grtResult_t Launch(std::vector<Call> calls, bool group) {
  grtResult_t first_error = grtSuccess;
  const std::vector<Call> all = calls;
  // In the order of the calls, which is the same at all members, whatever streams these are on.
  for (const Call& call : calls) Number(call.task.get());
  const std::map<const Comm*, Spread> spread =
      group ? SpreadComms(calls) : std::map<const Comm*, Spread>();
  const auto spread_of = [&](const Call& call) -> const Spread* {
    const auto at = spread.find(call.task->comm.get());
    return at == spread.end() || call.order != grtOrderStrict ? nullptr : &at->second;
  };
  while (!calls.empty()) {
    const Call head = calls.front();
    const Spread* const whose = spread_of(head);
    std::vector<std::shared_ptr<Task>> tasks;
    std::vector<Call> rest;
    for (Call& call : calls) {
      const bool together = call.stream == head.stream && call.order == head.order &&
                            call.task->comm->engine() == head.task->comm->engine() &&
                            spread_of(call) == whose;
      if (together) {
        tasks.push_back(call.task);
      } else {
        rest.push_back(std::move(call));
      }
    }
    calls = std::move(rest);
    std::vector<std::shared_ptr<Task>> others;
    for (const std::shared_ptr<Task>& task : whose != nullptr ? whose->tasks : others) {
      if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) others.push_back(task);
    }
    grtResult_t result = LaunchUnit(std::move(tasks), head.stream, head.order,
                                    whose != nullptr ? whose->gang : nullptr, others);
    if (result == grtSuccess && group && head.order == grtOrderDeferred) {
      result = Join(head.stream, StreamOrder::Get().TakeDeferred(head.stream));
    }
    if (first_error == grtSuccess) first_error = result;
  }
  for (const Call& call : all) {
    if (call.handle != nullptr) *call.handle = new grtOpOpaque{call.task};
  }
  return first_error;
}

}  // namespace

grtResult_t Submit(const grtOpDesc_t& desc, cudaStream_t stream, grtOp_t* handle) {
  return Guarded([&] {
    Call call;
    const grtResult_t result = MakeTask(desc, &call.task);
    if (result != grtSuccess) {
      if (t_group.depth > 0 && t_group.error == grtSuccess) t_group.error = result;
      return result;
    }
    call.stream = stream;
    call.handle = handle;
    call.order = desc.order != grtOrderDefault ? desc.order : desc.comm->comm->config().order;
    if (call.order == grtOrderDefault) call.order = grtOrderStrict;
    if (t_group.depth > 0) {
      t_group.calls.push_back(std::move(call));
      return grtSuccess;
    }
    std::vector<Call> calls;
    calls.push_back(std::move(call));
    return Launch(std::move(calls), false);
  });
}

}  // namespace gordian::runtime

using namespace gordian::runtime;

grtResult_t grtGroupStart(void) {
  ++t_group.depth;
  return grtSuccess;
}

grtResult_t grtGroupEnd(void) {
  if (t_group.depth == 0) return grtInvalidUsage;
  if (--t_group.depth > 0) return grtSuccess;
  const grtResult_t error = std::exchange(t_group.error, grtSuccess);
  std::vector<Call> calls = std::exchange(t_group.calls, {});
  if (error != grtSuccess) return error;
  return Guarded([&] { return Launch(std::move(calls), true); });
}

grtResult_t grtFrontEarly(grtFrontName_t* names, uint32_t most, uint32_t* count) {
  if (names == nullptr || count == nullptr) return grtInvalidArgument;
  return Engine::Early(names, most, count) ? grtSuccess : grtInProgress;
}

grtResult_t grtStreamJoin(cudaStream_t stream) {
  return Guarded([&] { return Join(stream, StreamOrder::Get().TakeDeferred(stream)); });
}

grtResult_t grtOpStreamWait(grtOp_t op, cudaStream_t stream) {
  if (op == nullptr) return grtInvalidArgument;
  return Guarded([&] { return Join(stream, {op->task}); });
}
