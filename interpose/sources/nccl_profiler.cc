#include "interpose/sources/nccl_profiler.h"

#include <string.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/loader.h"
#include "interpose/progress/driver_api.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/handle_tables.h"
#include "interpose/state/ring_client.h"

namespace gordian::interpose::profiler {
namespace {

constexpr uint32_t kGroupComms = 16;

// The group that the thread is in, from kGroupApi's start to its end.
struct ThreadGroup {
  ThreadContext* thread;  // null: in none
  Event* event;
  bool own;       // NCCL's, around one call
  bool ending;    // ncclGroupEnd was called, or its own call is under way
  bool pending;   // own: `note` is of the call that is under way
  bool overflow;  // more communicators than there is room for
  uint32_t comms;
  struct Called {
    Comm* comm;
    bool launched;
  } called[kGroupComms];
  CallId call;
  OperationNote note;
};
thread_local constinit ThreadGroup t_group __attribute__((tls_model("initial-exec"))) = {};

constexpr bool IsOperation(uint16_t call) {
  return ring::kCalls[call].payload == ring::PayloadKind::kOperation;
}
constexpr bool IsTransfer(CallId call) {
  const ring::Meaning meaning = ring::kCalls[call].meaning;
  return meaning == ring::Meaning::kSend || meaning == ring::Meaning::kRecv;
}
constexpr size_t kOperationCount = [] {
  size_t count = 0;
  for (uint16_t call = 1; call < ring::kCallCount; ++call) count += IsOperation(call);
  return count;
}();
// The profiler names the operation of ncclAllReduce "AllReduce".
struct NamedOperations {
  struct {
    const char* name;
    CallId call;
    bool transfer;
  } rows[kOperationCount];
};
// Lists them in the order of Meaning, so that the usual ones are found first.
constexpr NamedOperations kOperations = [] {
  constexpr size_t kPrefix = sizeof("nccl") - 1;
  NamedOperations operations = {};
  size_t count = 0;
  for (int meaning = 0; count < kOperationCount; ++meaning) {
    for (uint16_t row = 1; row < ring::kCallCount; ++row) {
      if (!IsOperation(row) || static_cast<int>(ring::kCalls[row].meaning) != meaning) continue;
      const auto call = static_cast<CallId>(row);
      operations.rows[count++] = {ring::kCalls[call].name + kPrefix, call, IsTransfer(call)};
    }
  }
  return operations;
}();

CallId OperationOf(const char* name, bool transfer) {
  if (name == nullptr) return ring::kCallNone;
  for (const auto& row : kOperations.rows) {
    if (row.transfer == transfer && SameText(row.name, name)) return row.call;
  }
  return ring::kCallNone;
}
CallId CollectiveOf(const char* name) { return OperationOf(name, false); }
CallId TransferOf(const char* name) { return OperationOf(name, true); }

struct NamedType {
  const char* name;
  ncclDataType_t type;
};
// Without the "nccl" in front; the usual ones first.
constexpr NamedType kTypes[] = {
    {"Bfloat16", ncclBfloat16}, {"Float32", ncclFloat32},       {"Float16", ncclFloat16},
    {"Int32", ncclInt32},       {"Int64", ncclInt64},           {"Uint8", ncclUint8},
    {"Int8", ncclInt8},         {"Float64", ncclFloat64},       {"Uint32", ncclUint32},
    {"Uint64", ncclUint64},     {"Float8e4m3", ncclFloat8e4m3}, {"Float8e5m2", ncclFloat8e5m2}};

ncclDataType_t TypeOf(const char* name) {
  if (name == nullptr || !BeginsWith(name, "nccl")) return ncclInt8;
  for (const NamedType& type : kTypes) {
    if (SameText(type.name, name + 4)) return type.type;
  }
  return ncclInt8;
}

// True if the process calls NCCL through symbols.
bool SeesSymbols(const Process& process) {
  return process.calls_by_symbol.load(std::memory_order_relaxed) != 0;
}

// The records and state of an existing communicator.
CommState* CommOf(ThreadContext& thread, Comm& comm) {
  if (comm.process == thread.process) return comm.comm.load(std::memory_order_acquire);
  if (comm.process != nullptr) return nullptr;  // a forked child has its parent's communicator
  comm.process = thread.process;
  InitArguments init;
  init.nranks = comm.ranks;
  init.rank = comm.rank;
  init.device = comm.device;
  // NCCL's identity may not be unique; adding the size makes a clash less likely.
  init.uid = (comm.id ^ static_cast<uint64_t>(comm.ranks)) * 0x9E3779B97F4A7C15ull;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (comm.name[0] != '\0') config.commName = comm.name;
  init.config = &config;
  auto handle = reinterpret_cast<ncclComm_t>(&comm);
  CountNcclCall(thread);
  CommState* made = BeginInit(thread, ring::kCall_ncclCommInitRank, 0, init, true);
  EndInit(thread, ring::kCall_ncclCommInitRank, 0, made, &handle, ncclSuccess, true);
  comm.comm.store(made, std::memory_order_release);
  return made;
}

// Within a group of this thread whose calls are recorded.
ThreadGroup* Group() {
  ThreadGroup& group = t_group;
  return group.thread != nullptr && StillAttached(*group.thread) ? &group : nullptr;
}

ThreadGroup::Called* CalledOn(ThreadGroup& group, const Comm& comm) {
  for (uint32_t i = 0; i < group.comms; ++i) {
    if (group.called[i].comm == &comm) return &group.called[i];
  }
  return nullptr;
}

void NoteCalled(ThreadGroup& group, Comm& comm) {
  if (CalledOn(group, comm) != nullptr) return;
  if (group.comms == kGroupComms) {
    group.overflow = true;
    return;
  }
  // A single member needs no kernel of NCCL's.
  group.called[group.comms++] = {&comm, comm.ranks == 1};
}

// "In progress" if no launch was seen: the shim then says nothing about the GPU.
ncclResult_t ResultOf(const ThreadGroup& group) {
  if (group.overflow) return ncclInProgress;
  for (uint32_t i = 0; i < group.comms; ++i) {
    if (!group.called[i].launched) return ncclInProgress;
  }
  return ncclSuccess;
}

void EnterGroupEnd(ThreadGroup& group) {
  if (group.own || group.ending) return;
  group.ending = true;
  BeginGroupEnd(*group.thread, ring::kCall_ncclGroupEnd, 0);
}

void CloseGroup(ThreadGroup& group, ncclResult_t result) {
  ThreadContext& thread = *group.thread;
  if (group.own) {
    if (group.pending) EndOperation(thread, group.call, 0, group.note, result);
  } else {
    EnterGroupEnd(group);
    CountNcclCall(thread);
    EndGroupEnd(thread, ring::kCall_ncclGroupEnd, 0, result);
  }
  group.thread = nullptr;
}

void StopGroup(const Event& event) {
  ThreadGroup* const group = Group();
  if (group != nullptr && group->event == &event) CloseGroup(*group, ResultOf(*group));
}

void StartGroup(Event& event, const GroupApiFields& fields) {
  ThreadContext* const thread = CurrentThread();
  // NCCL opens one at a time: it has dropped the last one after an error, without notice.
  if (ThreadGroup* const left = Group()) CloseGroup(*left, ncclInternalError);
  if (thread == nullptr || thread->group_depth != 0) return;
  thread->device = -1;
  if (CommOf(*thread, *event.comm) == nullptr) return;
  ThreadGroup& group = t_group;
  group.thread = thread;
  group.event = &event;
  group.own = fields.group_depth <= 1;
  group.ending = group.pending = group.overflow = false;
  group.comms = 0;
  event.taken = true;
  if (!group.own) {
    CountNcclCall(*thread);
    EndGroupStart(*thread, ncclSuccess);
  }
}

// The program may have destroyed the stream unseen, and another may have its handle.
void CheckStream(ThreadContext& thread, void* stream) {
  const auto handle = reinterpret_cast<uint64_t>(stream);
  unsigned long long id = 0;
  if (handle <= kPerThreadHandle || !DriverKnown() || g_driver.stream_get_id == nullptr ||
      g_driver.stream_get_id(static_cast<CUstream>(stream), &id) != CUDA_SUCCESS || id == 0) {
    return;
  }
  StreamState* known = FindStream(thread, handle, 0);
  if (known == nullptr) return;
  const uint64_t before = known->driver_id.load(std::memory_order_relaxed);
  if (before != 0 && before != id) {
    known = AddStream(thread, handle, CurrentDevice(thread), ring::kStreamFlagsUnknown,
                      ring::kCall_cudaStreamCreateWithFlags, 0);
  }
  if (known != nullptr) known->driver_id.store(id, std::memory_order_relaxed);
}

// True if NCCL reports the end of the call: inside a group.
bool StartOperation(ThreadGroup& group, Comm& comm, CallId call,
                    const OperationArguments& arguments) {
  ThreadContext& thread = *group.thread;
  if (CommOf(thread, comm) == nullptr) return false;
  NoteCalled(group, comm);
  if (group.own && group.pending) {
    // One call made several of NCCL's own: the earlier ones were called.
    EndOperation(thread, group.call, 0, group.note, ncclInProgress);
  }
  CountNcclCall(thread);
  CheckStream(thread, arguments.stream);
  group.call = call;
  BeginOperation(thread, call, 0, arguments, &group.note);
  group.pending = group.own;
  return !group.own;
}

OperationArguments Arguments(Comm& comm, size_t count, const char* type, int root, void* stream) {
  OperationArguments a;
  a.count = count;
  a.datatype = TypeOf(type);
  a.root_or_peer = root;
  a.comm = &comm;
  a.stream = stream;
  // NCCL reports neither, and equal addresses would mean "in place".
  a.send = nullptr;
  a.receive = &comm;
  return a;
}

void StartCall(Event& event, const CollApiFields& fields) {
  ThreadGroup* const group = Group();
  const CallId call = CollectiveOf(fields.func);
  if (group == nullptr || call == ring::kCallNone) return;
  event.taken = StartOperation(
      *group, *event.comm, call,
      Arguments(*event.comm, fields.count, fields.datatype, fields.root, fields.stream));
}

void StopCall(const Event&) {
  ThreadGroup* const group = Group();
  if (group != nullptr) EndOperation(*group->thread, group->call, 0, group->note, ncclSuccess);
}

// The peer is known now, in the middle of the group's end.
void StartTransfer(Event& event, const P2pFields& fields, const Event* called) {
  ThreadGroup* const group = Group();
  const CallId call = TransferOf(fields.func);
  // What NCCL makes of an all-to-all belongs to a collective.
  if (group == nullptr || call == ring::kCallNone || called == nullptr || called->type != kP2pApi) {
    return;
  }
  const bool ends = StartOperation(
      *group, *event.comm, call,
      Arguments(*event.comm, fields.count, fields.datatype, fields.peer, called->stream));
  if (ends) EndOperation(*group->thread, call, 0, group->note, ncclSuccess);
}

// Version 4: it is being launched, somewhere. No call of CUDA here.
void NoteLaunched(Comm& comm, CallId call, OperationArguments arguments) {
  ThreadContext* const thread = CurrentThread();
  if (call == ring::kCallNone || thread == nullptr || SeesSymbols(*thread->process) ||
      CommOf(*thread, comm) == nullptr) {
    return;
  }
  arguments.no_stream = true;
  CountNcclCall(*thread);
  OperationNote note;
  BeginOperation(*thread, call, 0, arguments, &note);
  EndOperation(*thread, call, 0, note, ncclSuccess);
}

// Inside a call that came through a symbol, which is recorded.
bool FromSymbol() { return t_local.depth != 0; }

}  // namespace

// Between the calls of the program's own group, the program runs.
bool IsInsideNccl() {
  const ThreadGroup& group = t_group;
  return group.thread != nullptr && StillAttached(*group.thread) && (group.own || group.ending);
}

void OnInit(Comm& comm) {
  comm.device = -1;
  if (FromSymbol()) return;
  ThreadContext* const thread = CurrentThread();
  if (thread == nullptr) return;
  PrepareDriver(*thread);
  thread->device = -1;  // no event reports its changes
  comm.device = CurrentDevice(*thread);
  // NCCL may make it in a thread of its own, where the depth says nothing: if calls come through
  // symbols, wait for those.
  if (!SeesSymbols(*thread->process)) CommOf(*thread, comm);
}

void OnStart(Event& event, const Description& description) {
  if (FromSymbol()) return;
  switch (event.type) {
    case kGroupApi:
      return StartGroup(event, description.group_api);
    case kCollApi:
      return StartCall(event, description.coll_api);
    case kP2pApi:
      event.stream = description.p2p_api.stream;
      if (ThreadGroup* const group = Group()) NoteCalled(*group, *event.comm);
      return;
    case kColl:
      if (event.comm->version != 4) return;
      return NoteLaunched(*event.comm, CollectiveOf(description.coll.func),
                          Arguments(*event.comm, description.coll.count, description.coll.datatype,
                                    description.coll.root, nullptr));
    case kP2p:
      if (event.comm->version != 4) {
        return StartTransfer(event, description.p2p, static_cast<Event*>(description.parent));
      }
      return NoteLaunched(*event.comm, TransferOf(description.p2p.func),
                          Arguments(*event.comm, description.p2p.count, description.p2p.datatype,
                                    description.p2p.peer, nullptr));
    case kKernelLaunch:
      if (ThreadGroup* const group = Group()) EnterGroupEnd(*group);
      return;
    default:
      return;
  }
}

void OnState(Event& event, int state) {
  if (event.type != kGroupApi || state != kGroupEndApiStart) return;
  ThreadGroup* const group = Group();
  if (group != nullptr && group->event == &event) EnterGroupEnd(*group);
}

void OnStop(Event& event) {
  switch (event.type) {
    case kGroupApi:
      return StopGroup(event);
    case kCollApi:
      if (event.taken) StopCall(event);
      return;
    case kKernelLaunch:
      if (ThreadGroup* const group = Group()) {
        if (ThreadGroup::Called* const called = CalledOn(*group, *event.comm)) {
          called->launched = true;
        }
      }
      return;
    default:
      return;
  }
}

void OnFinalize(Comm& comm) {
  ThreadContext* const thread = FromSymbol() ? nullptr : CurrentThread();
  if (thread == nullptr || comm.process != thread->process) return;
  CommState* const made = comm.comm.load(std::memory_order_acquire);
  if (made == nullptr) return;
  UnbindComm(*thread->process, *made);
  SetCommState(*made, ring::CommState::kDestroyed);
}

}  // namespace gordian::interpose::profiler
