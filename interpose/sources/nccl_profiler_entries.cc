// The tables that NCCL looks up, and the pools of the handles that NCCL gets. Keeps the shim's side
// and the user's plugin apart: each event goes to those that asked for it.
#include <string.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/sources/nccl_profiler.h"
#include "interpose/sources/nccl_profiler_chain.h"

namespace gordian::interpose::profiler {
namespace {

constexpr uint32_t kComms = 1024;   // of one process at a time
constexpr uint32_t kEvents = 1024;  // not stopped yet
constinit Comm g_comms[kComms] = {};
// Hands out call events in turn, so that a stopped one stays recognisable for as long as possible;
// the others are reused where the thread's cache holds them.
constexpr uint32_t kCallEvents = 4096;
constinit Event g_events[kCallEvents + kEvents] = {};
constinit std::atomic<uint32_t> g_next_call = 0;
constexpr uintptr_t kTimesMask = alignof(Event) - 1;

// The first free one of `size` from `first` on.
template <typename Entry>
Entry* Take(Entry* pool, uint32_t size, uint32_t first, uint32_t tries) {
  for (uint32_t i = 0; i < tries; ++i) {
    Entry& entry = pool[(first + i) % size];
    uint32_t free = 0;
    if (entry.in_use.load(std::memory_order_relaxed) == 0 &&
        entry.in_use.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
      return &entry;
    }
  }
  return nullptr;
}

Event* TakeEvent(uint32_t type) {
  constexpr uint32_t kTries = 64;
  if (type == kCollApi || type == kP2pApi) {
    const uint32_t next = g_next_call.fetch_add(1, std::memory_order_relaxed);
    return Take(g_events, kCallEvents, next, kTries);
  }
  const auto thread = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&t_local) >> 6);
  return Take(g_events + kCallEvents, kEvents, thread * 0x9E3779B1u >> 8, kTries);
}

void* HandleOf(Event& event) {
  return reinterpret_cast<char*>(&event) + (++event.times & kTimesMask);
}

// The user's plugin may have changed its mask.
void UpdateMask(Comm& comm) {
  const int user = Shared(comm.user_mask).load(std::memory_order_relaxed);
  Put(*comm.nccl_mask, OurMask(comm.version) | user);
}

int Init(int version, void** context, uint64_t id, int* mask, const char* name, int nodes,
         int ranks, int rank, void* log) {
  const ErrnoKeeper keep_errno;
  *context = nullptr;
  Comm* const comm = Take(g_comms, kComms, 0, kComms);
  if (comm == nullptr) return 0;
  comm->version = version;
  comm->id = id;
  comm->nodes = nodes;
  comm->ranks = ranks;
  comm->rank = rank;
  memset(comm->name, 0, sizeof(comm->name));
  if (name != nullptr) strncpy(comm->name, name, sizeof(comm->name) - 1);
  comm->process = nullptr;
  comm->comm.store(nullptr, std::memory_order_relaxed);
  comm->user_context = nullptr;
  comm->user_mask = 0;
  comm->nccl_mask = mask;
  *context = comm;
  ChainInit(*comm, log);
  UpdateMask(*comm);
  OnInit(*comm);
  return 0;
}

template <int kVersion>
int Start(void* context, void** handle, Description* description) {
  const ErrnoKeeper keep_errno;
  *handle = nullptr;
  auto* const comm = static_cast<Comm*>(context);
  if (comm == nullptr) return 0;
  const uint32_t type = kVersion == 4 ? static_cast<uint8_t>(description->type)
                                      : static_cast<uint32_t>(description->type);
  if (comm->user_context != nullptr) UpdateMask(*comm);
  void* user = nullptr;
  if (ChainWants(*comm, type)) ChainStart(*comm, &user, description);
  Event* const event =
      (static_cast<uint32_t>(OurMask(kVersion)) & type) != 0 ? TakeEvent(type) : nullptr;
  if (event == nullptr) {  // the user's own, or no event is left
    *handle = user;
    return 0;
  }
  event->type = type;
  event->comm = comm;
  event->stream = nullptr;
  event->user = user;
  event->taken = false;
  *handle = HandleOf(*event);
  Description seen;  // NCCL's own is as long as its version says
  memcpy(&seen, description, BytesOfDescription(kVersion));
  seen.parent = OwnEvent(description->parent);
  OnStart(*event, seen);
  return 0;
}

template <int kVersion>
int Stop(void* handle) {
  const ErrnoKeeper keep_errno;
  if (handle == nullptr) return 0;
  Event* const event = OwnEvent(handle);
  if (event != nullptr) OnStop(*event);
  if (void* const user = UserHandle(handle)) ChainStop(kVersion, user);
  if (event != nullptr) event->in_use.store(0, std::memory_order_release);
  return 0;
}

template <int kVersion>
int State(void* handle, int state, void* arguments) {
  const ErrnoKeeper keep_errno;
  if (handle == nullptr) return 0;
  if (Event* const event = OwnEvent(handle)) OnState(*event, state);
  if (void* const user = UserHandle(handle)) ChainState(kVersion, user, state, arguments);
  return 0;
}

int Finalize(void* context) {
  const ErrnoKeeper keep_errno;
  auto* const comm = static_cast<Comm*>(context);
  if (comm == nullptr) return 0;
  OnFinalize(*comm);
  ChainFinalize(*comm);
  comm->in_use.store(0, std::memory_order_release);
  return 0;
}

int InitV4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
           int rank, void* log) {
  return Init(4, context, hash, mask, name, nodes, ranks, rank, log);
}
template <int kVersion>
int InitLater(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
              int rank, void* log) {
  return Init(kVersion, context, id, mask, name, nodes, ranks, rank, log);
}

}  // namespace

Event* OwnEvent(void* handle) {
  const auto at = reinterpret_cast<uintptr_t>(handle);
  const auto first = reinterpret_cast<uintptr_t>(&g_events[0]);
  if (at < first || at - first >= sizeof(g_events)) return nullptr;
  Event* const event = reinterpret_cast<Event*>(at & ~kTimesMask);
  return (event->times & kTimesMask) == (at & kTimesMask) ? event : nullptr;
}

void* UserHandle(void* handle) {
  const auto at = reinterpret_cast<uintptr_t>(handle);
  const auto first = reinterpret_cast<uintptr_t>(&g_events[0]);
  if (at < first || at - first >= sizeof(g_events)) return handle;
  const Event* const event = OwnEvent(handle);
  return event != nullptr ? event->user : nullptr;
}

}  // namespace gordian::interpose::profiler

namespace profiler = gordian::interpose::profiler;

extern "C" {
extern __attribute__((visibility("default"))) const profiler::TableV4 ncclProfiler_v4;
extern __attribute__((visibility("default"))) const profiler::TableV5 ncclProfiler_v5;
extern __attribute__((visibility("default"))) const profiler::TableV5 ncclProfiler_v6;
extern __attribute__((visibility("default"))) const profiler::TableV5 ncclProfiler_v7;

constinit const profiler::TableV4 ncclProfiler_v4 = {"gordian",          profiler::InitV4,
                                                     profiler::Start<4>, profiler::Stop<4>,
                                                     profiler::State<4>, profiler::Finalize};
constinit const profiler::TableV5 ncclProfiler_v5 = {"gordian",          profiler::InitLater<5>,
                                                     profiler::Start<5>, profiler::Stop<5>,
                                                     profiler::State<5>, profiler::Finalize};
constinit const profiler::TableV5 ncclProfiler_v6 = {"gordian",          profiler::InitLater<6>,
                                                     profiler::Start<6>, profiler::Stop<6>,
                                                     profiler::State<6>, profiler::Finalize};
constinit const profiler::TableV5 ncclProfiler_v7 = {"gordian",          profiler::InitLater<7>,
                                                     profiler::Start<7>, profiler::Stop<7>,
                                                     profiler::State<7>, profiler::Finalize};
}
