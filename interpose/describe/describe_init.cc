// Describes calls that make communicators.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/describe/describe_cuda.h"
#include "interpose/describe/describe_nccl.h"
#include "interpose/describe/nccl_deferred.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/handle_tables.h"
#include "interpose/state/ring_client.h"
#include "interpose/torch/torch_groups.h"
#include "proto/ring/polled_comm.h"

namespace gordian::interpose {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 32;
  hash *= 0xc4ceb9fe1a85ec53ull;
  return hash ^ hash >> 29;
}

// A caller's older nccl.h has fewer members, as its `size` says.
bool ConfigHas(const ncclConfig_t* config, size_t offset, size_t bytes) {
  return config != nullptr && config->magic == kConfigMagic && config->size >= offset + bytes;
}

bool IsNonBlocking(const Process& process, const ncclConfig_t* config, const CommState* parent) {
  if (process.forced_blocking >= 0) return process.forced_blocking == 0;
  if (ConfigHas(config, offsetof(ncclConfig_t, blocking), sizeof(config->blocking)) &&
      config->blocking != NCCL_CONFIG_UNDEF_INT) {
    return config->blocking == 0;
  }
  return parent != nullptr && (parent->flags & ring::kFlagNonBlocking) != 0;
}

// As NCCL reads it: once, at its first use.
bool LaunchesInOrder() {
  static constinit std::atomic<int> known{-1};
  int value = known.load(std::memory_order_relaxed);
  if (value < 0) {
    const char* text = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    value = text != nullptr && text[0] == '1' && text[1] == '\0' ? 1 : 0;
    known.store(value, std::memory_order_relaxed);
  }
  return value != 0;
}

void PublishName(ThreadContext& thread, CallId call, CommState& comm, const ncclConfig_t* config) {
  if (NameGiven(config) == nullptr) return;
  for (size_t i = 0; i + 1 < sizeof(comm.slot->name) && config->commName[i] != '\0'; ++i) {
    Put(comm.slot->name[i], config->commName[i]);
  }
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kText, call, 0,
                                         NextOrder(thread), ReadTicks(thread), 0)) {
    record->payload.text = {comm.id, {}};
    strncpy(record->payload.text.text, config->commName, sizeof(record->payload.text.text) - 1);
    FinishRecord(thread);
  }
}

}  // namespace

const char* NameGiven(const ncclConfig_t* config) {
  return ConfigHas(config, offsetof(ncclConfig_t, commName), sizeof(config->commName))
             ? config->commName
             : nullptr;
}

uint64_t HashIds(const ncclUniqueId* ids, int count) {
  uint64_t hash = 0x676f726469616eull;
  if (ids == nullptr) return hash;
  for (int i = 0; i < count; ++i) {
    for (size_t at = 0; at < sizeof(ids[i].internal); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      memcpy(&word, ids[i].internal + at, sizeof(word));
      hash = Mix(hash, word);
    }
  }
  return hash;
}

uint64_t LocalUid(Process& process) {
  const uint64_t call = process.init_all_calls.fetch_add(1, std::memory_order_relaxed);
  const ring::Header& header = *process.header;
  return Mix(
      Mix(Mix(0x616c6cull, header.clock.real_base_ns), header.process_start << 22 | header.pid),
      call);
}

uint64_t ChildUid(CommState* parent, CallId call) {
  if (parent == nullptr) return 0;
  // Not the row's number, which a newer table may change at one member and not at another.
  const ring::Meaning meaning = ring::kCalls[call].meaning;
  const uint64_t kind = meaning == ring::Meaning::kCommShrink ? 2
                        : meaning == ring::Meaning::kCommGrow ? 3
                                                              : 1;
  return Mix(Mix(parent->uid, kind), parent->child_calls.fetch_add(1, std::memory_order_relaxed));
}

CommState* BeginInit(ThreadContext& thread, CallId call, uint64_t site, const InitArguments& init,
                     bool first) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  StopPolling(thread);
  MarkGpuThread(thread);
  PrepareDriver(thread);
  EnsureWatcher(process);
  const uint32_t parent = init.parent != nullptr ? init.parent->id : ring::kNoId;
  const int32_t device = init.device >= 0 ? init.device : CurrentDevice(thread);
  CommState* comm = AddComm(process, init.uid, parent, init.nranks, init.rank, device);
  if (comm != nullptr && IsNonBlocking(process, init.config, init.parent)) {
    comm->flags |= ring::kFlagNonBlocking;
  }
  uint8_t flags = comm != nullptr ? comm->flags : 0;
  if (thread.group_depth != 0) flags |= ring::kFlagInGroup;
  if (LaunchesInOrder()) flags |= ring::kFlagLaunchOrder;
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = ReadTicks(thread);
  if (ring::Record* record =
          StartRecord(thread, ring::RecordKind::kBegin, call, flags, order, ticks, site)) {
    record->payload.comm_init = {comm != nullptr ? comm->id : ring::kNoId,
                                 init.nranks,
                                 init.rank,
                                 device,
                                 init.uid,
                                 parent,
                                 init.color};
    FinishRecord(thread);
  }
  if (comm != nullptr) PublishName(thread, call, *comm, init.config);
  NameByTorch(thread, comm);
  if (comm != nullptr && comm->numbers != nullptr) Put(comm->numbers->color, init.color);
  if (first) {
    ring::CallArguments given = {};
    given.comm = comm != nullptr ? comm->id : ring::kNoId;
    given.device = device;
    given.flags = flags;
    EnterCall(thread, call, order, ticks, site, given);
  }
  return comm;
}

void NoteOtherUid(ThreadContext& thread, CallId call, uint64_t site, const CommState* comm,
                  uint64_t uid) {
  if (comm == nullptr) return;
  Put(comm->slot->other_uid, uid);
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kPoint, call, 0,
                                         NextOrder(thread), ReadTicks(thread), site)) {
    record->payload.comm_init = {comm->id, comm->nranks, comm->rank, comm->device,
                                 uid,      ring::kNoId,  0};
    FinishRecord(thread);
  }
}

void EndInit(ThreadContext& thread, CallId call, uint64_t site, CommState* comm, ncclComm_t* made,
             ncclResult_t result, bool last) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  const bool accepted = result == ncclSuccess || result == ncclInProgress;
  const bool in_group = thread.group_depth != 0;
  const ncclComm_t handle = accepted && made != nullptr ? *made : nullptr;
  ring::EndPayload end = {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1};
  if (comm != nullptr) {
    end.comm = comm->id;
    if (result == ncclInProgress) comm->flags |= ring::kFlagNonBlocking;
    if (!accepted) {
      SetCommState(*comm, ring::CommState::kFailed);
    } else if (handle != nullptr) {
      BindComm(process, *comm, reinterpret_cast<uint64_t>(handle));
    } else if (!in_group) {
      ReleaseComm(process, *comm);  // a split whose colour joins nothing
    }
    if (accepted && in_group && thread.group_init_count < kGroupInits) {
      thread.group_inits[thread.group_init_count++] = {comm, reinterpret_cast<void**>(made)};
    }
    const bool ready = handle != nullptr && result == ncclSuccess && !in_group &&
                       (comm->flags & ring::kFlagNonBlocking) == 0;
    if (ready) {
      if (comm->nranks == 0) AskCommSize(process, *comm);
      SetCommState(*comm, ring::CommState::kReady);
    }
    if (handle != nullptr) {
      end.nranks = comm->nranks;
      end.rank = comm->rank;
      end.device = comm->device;
    }
  }
  PublishEnd(thread, call, comm != nullptr ? comm->flags : 0, NextOrder(thread), ReadTicks(thread),
             site, end);
  if (last) LeaveCall(thread);
}

void EndGetAsyncError(ThreadContext& thread, CallId call, ncclComm_t handle, ncclResult_t result,
                      const ncclResult_t* state) {
  const bool told = result == ncclSuccess && state != nullptr && handle != nullptr;
  if (!told || (*state != ncclSuccess && *state != ncclInProgress)) return;
  CommState* comm = FindComm(thread, handle);
  if (comm == nullptr) return;
  const uint64_t polled = ring::kPolledComm | comm->id;
  if (*state == ncclInProgress) {
    NoteQuery(thread, call, reinterpret_cast<const void*>(polled), true);
    return;
  }
  // A loop that asks this between two queries of an event still polls the event.
  if (thread.slot->poll_object == polled) StopPolling(thread);
  if (GetCommState(*comm) == ring::CommState::kIniting && thread.group_depth == 0) {
    ErrnoKeeper keep_errno;
    if (comm->nranks == 0) AskCommSize(*thread.process, *comm);
    SetCommState(*comm, ring::CommState::kReady);
  }
  if (comm->deferred_count.load(std::memory_order_relaxed) != 0) FlushDeferred(thread, *comm);
}

}  // namespace gordian::interpose
