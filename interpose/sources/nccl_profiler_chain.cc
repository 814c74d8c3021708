#include "interpose/sources/nccl_profiler_chain.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/entry/loader.h"

GORDIAN_BIND_FIRST_VERSION(dlopen);
GORDIAN_BIND_FIRST_VERSION(dlerror);

namespace gordian::interpose::profiler {
namespace {

constinit TryLock g_open_lock = {};
constinit std::atomic<uint32_t> g_opened = 0;
constinit const TableV4* g_v4 = nullptr;
constinit const TableV5* g_v5 = nullptr;
constinit const TableV5* g_v6 = nullptr;
constinit const TableV5* g_v7 = nullptr;

// No call that the user's plugin makes is the job's.
class Unseen {
 public:
  Unseen() { ++t_local.depth; }
  ~Unseen() { --t_local.depth; }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// By the names that NCCL would try (src/plugin/plugin_open.cc).
void* OpenPlugin(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr && strchr(name, '/') == nullptr) {
    char longer[256];
    const int length = snprintf(longer, sizeof(longer), "libnccl-profiler-%s.so", name);
    if (length > 0 && length < static_cast<int>(sizeof(longer))) {
      handle = dlopen(longer, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (handle == nullptr) dlerror();  // ours, not the job's next
  return handle;
}

void Open() {
  if (g_opened.load(std::memory_order_acquire) != 0 || !g_open_lock.Acquire()) return;
  if (g_opened.load(std::memory_order_relaxed) == 0) {
    const char* name = getenv("GORDIAN_NCCL_PROFILER_PLUGIN");
    void* const handle = name != nullptr && name[0] != '\0' ? OpenPlugin(name) : nullptr;
    if (handle != nullptr) {
      g_v4 = static_cast<const TableV4*>(Loader().dlsym(handle, "ncclProfiler_v4"));
      g_v5 = static_cast<const TableV5*>(Loader().dlsym(handle, "ncclProfiler_v5"));
      g_v6 = static_cast<const TableV5*>(Loader().dlsym(handle, "ncclProfiler_v6"));
      g_v7 = static_cast<const TableV5*>(Loader().dlsym(handle, "ncclProfiler_v7"));
      dlerror();
    }
    g_opened.store(1, std::memory_order_release);
  }
  g_open_lock.Release();
}

const TableV5* LaterTable(int version) { return version == 5 ? g_v5 : version == 6 ? g_v6 : g_v7; }

// NCCL makes an event of `type` for every requested type whose row has it.
constexpr uint32_t kBelowTask = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
constexpr uint32_t kCopyEngine = kCeColl | kCeSync | kCeBatch;
constexpr uint32_t ImpliedBy(uint32_t type) {
  switch (type) {
    case kGroupApi:
      return kGroupApi | kP2pApi | kCollApi | kKernelLaunch | kGroup | kColl | kP2p | kBelowTask |
             kCopyEngine;
    case kCollApi:
      return kCollApi | kColl | kBelowTask | kCopyEngine;
    case kP2pApi:
      return kP2pApi | kP2p | kBelowTask;
    case kKernelLaunch:
      return kKernelLaunch;
    case kGroup:
      return kGroup | kColl | kP2p | kBelowTask;
    case kColl:
      return kColl | kBelowTask;
    case kP2p:
      return kP2p | kBelowTask;
    default:
      return ~0u;  // not asked for by us
  }
}

}  // namespace

bool ChainWants(Comm& comm, uint32_t type) {
  const int mask = Shared(comm.user_mask).load(std::memory_order_relaxed);
  return mask != 0 && (static_cast<uint32_t>(mask) & ImpliedBy(type)) != 0;
}

void ChainInit(Comm& comm, void* log) {
  const Unseen unseen;
  Open();
  if (g_opened.load(std::memory_order_acquire) == 0) return;
  const char* const name = comm.name[0] != '\0' ? comm.name : nullptr;
  int refused = 0;
  if (comm.version == 4) {
    if (g_v4 == nullptr) return;
    refused = g_v4->init(&comm.user_context, &comm.user_mask, name, comm.id, comm.nodes, comm.ranks,
                         comm.rank, log);
  } else {
    const TableV5* const table = LaterTable(comm.version);
    if (table == nullptr) return;
    refused = table->init(&comm.user_context, comm.id, &comm.user_mask, name, comm.nodes,
                          comm.ranks, comm.rank, log);
  }
  if (refused != 0) comm.user_mask = 0;
}

void ChainStart(Comm& comm, void** handle, const Description* description) {
  const Unseen unseen;
  // A copy, with the user's handles in place of the shim's. NCCL's own is as long as its version
  // says.
  Description copy;
  memcpy(&copy, description, BytesOfDescription(comm.version));
  const uint32_t type =
      comm.version == 4 ? static_cast<uint8_t>(copy.type) : static_cast<uint32_t>(copy.type);
  copy.parent = UserHandle(copy.parent);
  if (comm.version != 4 && type == kColl)
    copy.coll.parent_group = UserHandle(copy.coll.parent_group);
  if (comm.version != 4 && type == kP2p) copy.p2p.parent_group = UserHandle(copy.p2p.parent_group);
  if (comm.version == 4) {
    g_v4->start_event(comm.user_context, handle, &copy);
  } else {
    LaterTable(comm.version)->start_event(comm.user_context, handle, &copy);
  }
}

void ChainStop(int version, void* handle) {
  const Unseen unseen;
  if (version == 4) {
    g_v4->stop_event(handle);
  } else {
    LaterTable(version)->stop_event(handle);
  }
}

void ChainState(int version, void* handle, int state, void* arguments) {
  const Unseen unseen;
  if (version == 4) {
    g_v4->record_state(handle, state, arguments);
  } else {
    LaterTable(version)->record_state(handle, state, arguments);
  }
}

void ChainFinalize(const Comm& comm) {
  const Unseen unseen;
  if (comm.user_context == nullptr) return;
  if (comm.version == 4) {
    g_v4->finalize(comm.user_context);
  } else {
    LaterTable(comm.version)->finalize(comm.user_context);
  }
}

}  // namespace gordian::interpose::profiler
