#include "emulator/nccl/api/profiler.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <cstdlib>
#include <mutex>
#include <utility>

namespace gordian::emu::nccl {
namespace {

// After plugins/profiler/example/nccl/profiler_v4.h to profiler_v7.h of NCCL.
enum : int {
  kGroup = 0x1,
  kColl = 0x2,
  kP2p = 0x4,
  kProxyOp = 0x8,
  kProxyStep = 0x10,
  kKernelCh = 0x40,
  kNetPlugin = 0x80,
  kGroupApi = 0x100,
  kCollApi = 0x200,
  kP2pApi = 0x400,
  kKernelLaunch = 0x800,
};
constexpr int kBelow = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
constexpr int kGroupStartApiStop = 23;
constexpr int kGroupEndApiStart = 24;

struct CollV4 {
  uint64_t sequence_number;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
};
struct P2pV4 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct EventV4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    CollV4 coll;
    P2pV4 p2p;
  };
};

// Version 7 is longer; plugins of earlier ones read nothing of what it adds.
struct EventV5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      bool captured;
      int depth;
    } group_api;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool captured;
      uint64_t user_tag;  // version 7
    } coll_api;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      void* stream;
      bool captured;
    } p2p_api;
    struct {
      void* stream;
    } kernel_launch;
    struct {
      CollV4 as_v4;
      void* parent_group;
      const char* kernel;  // version 7, as are the next two
      bool symmetric;
      uint64_t user_tag;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t channels;
      void* parent_group;
    } p2p;
    struct {  // from version 6 on
      uint64_t number;
      const void* fields[10];
      uint64_t user_tag;  // version 7
    } copy_engine;
  };
};

struct PluginV4 {
  const char* name;
  ncclResult_t (*init)(void**, int*, const char*, uint64_t, int, int, int, void*);
  ncclResult_t (*start)(void*, void**, EventV4*);
  ncclResult_t (*stop)(void*);
  ncclResult_t (*record)(void*, int, void*);
  ncclResult_t (*finalize)(void*);
};
struct PluginV5 {
  const char* name;
  ncclResult_t (*init)(void**, uint64_t, int*, const char*, int, int, int, void*);
  ncclResult_t (*start)(void*, void**, EventV5*);
  ncclResult_t (*stop)(void*);
  ncclResult_t (*record)(void*, int, void*);
  ncclResult_t (*finalize)(void*);
};

void Log(int, unsigned long, const char*, int, const char*, ...) {}

struct Plugin {
  std::mutex mutex;
  bool looked = false;
  const PluginV4* v4 = nullptr;
  const PluginV5* v5 = nullptr;  // or versions 6 and 7
  int mask = 0;

  bool Wants(int types) const { return (v4 != nullptr || v5 != nullptr) && (mask & types) != 0; }
  void Stop(void* handle) const {
    if (handle == nullptr) return;
    v4 != nullptr ? v4->stop(handle) : v5->stop(handle);
  }
};

Plugin& ThePlugin() {
  static auto* plugin = new Plugin;
  return *plugin;
}

void* OpenLibrary(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const bool is_file =
      name.find('/') != std::string::npos || (name.starts_with("lib") && name.ends_with(".so"));
  if (library == nullptr && !is_file) {
    library = dlopen(("libnccl-profiler-" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}

void Load(Plugin& plugin) {
  std::lock_guard lock(plugin.mutex);
  if (std::exchange(plugin.looked, true)) return;
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || *name == '\0' || std::string(name) == "none") return;
  const char* wanted = std::getenv("GORDIAN_EMU_NCCL_PROFILER");
  const int newest = wanted == nullptr ? 5 : std::atoi(wanted);
  void* library = OpenLibrary(name);
  if (library == nullptr) return;
  for (int version = newest; version >= 4 && plugin.v4 == nullptr && plugin.v5 == nullptr;
       --version) {
    const void* table = dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
    if (version == 4) {
      plugin.v4 = static_cast<const PluginV4*>(table);
    } else {
      plugin.v5 = static_cast<const PluginV5*>(table);
    }
  }
}

const char* NameOfType(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "ncclInt8";
    case ncclUint8:
      return "ncclUint8";
    case ncclInt32:
      return "ncclInt32";
    case ncclUint32:
      return "ncclUint32";
    case ncclInt64:
      return "ncclInt64";
    case ncclUint64:
      return "ncclUint64";
    case ncclFloat16:
      return "ncclFloat16";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
    case ncclFloat8e4m3:
      return "ncclFloat8e4m3";
    case ncclFloat8e5m2:
      return "ncclFloat8e5m2";
    default:
      return "Unknown";
  }
}

// The group of the thread, from its first operation on.
thread_local void* group_event = nullptr;
thread_local bool group_open = false;

}  // namespace

void ProfiledComm::Start(uint64_t hash, const std::string& name, int nranks, int rank) {
  Plugin& plugin = ThePlugin();
  Load(plugin);
  const char* text = name.empty() ? nullptr : name.c_str();
  auto* log = reinterpret_cast<void*>(&Log);
  if (plugin.v4 != nullptr) {
    plugin.v4->init(&context_, &plugin.mask, text, hash, 1, nranks, rank, log);
  } else if (plugin.v5 != nullptr) {
    plugin.v5->init(&context_, hash, &plugin.mask, text, 1, nranks, rank, log);
  }
}

void ProfiledComm::Finish() {
  const Plugin& plugin = ThePlugin();
  void* const context = std::exchange(context_, nullptr);
  if (context == nullptr) return;
  plugin.v4 != nullptr ? plugin.v4->finalize(context) : plugin.v5->finalize(context);
}

void ProfiledComm::OnCall(Operation* operation, int depth) {
  const Plugin& plugin = ThePlugin();
  if (plugin.v5 == nullptr) return;
  const bool transfer = operation->IsPointToPoint();
  const int tasks = kGroup | kColl | kP2p | kBelow;
  if (!group_open && plugin.Wants(kGroupApi | kCollApi | kP2pApi | kKernelLaunch | tasks)) {
    EventV5 event = {};
    event.type = kGroupApi;
    event.group_api.captured = operation->captured;
    event.group_api.depth = depth;
    plugin.v5->start(context_, &group_event, &event);
    if (group_event != nullptr) plugin.v5->record(group_event, kGroupStartApiStop, nullptr);
    group_open = true;
  }
  if (!plugin.Wants(transfer ? kP2pApi | kP2p | kBelow : kCollApi | kColl | kBelow)) return;
  EventV5 event = {};
  event.parent = group_event;
  if (transfer) {
    event.type = kP2pApi;
    event.p2p_api.func = NameOf(operation->kind);
    event.p2p_api.count = operation->count;
    event.p2p_api.datatype = NameOfType(operation->datatype);
    event.p2p_api.stream = operation->stream_handle;
    event.p2p_api.captured = operation->captured;
  } else {
    event.type = kCollApi;
    event.coll_api.func = NameOf(operation->kind);
    event.coll_api.count = operation->count;
    event.coll_api.datatype = NameOfType(operation->datatype);
    event.coll_api.root = operation->root;
    event.coll_api.stream = operation->stream_handle;
    event.coll_api.captured = operation->captured;
    event.coll_api.user_tag = operation->profiler_tag;
  }
  plugin.v5->start(context_, &operation->call_event, &event);
  plugin.Stop(operation->call_event);
}

void ProfiledComm::OnLaunch(const Operation& first, void** handle) {
  const Plugin& plugin = ThePlugin();
  if (plugin.v5 == nullptr || !plugin.Wants(kKernelLaunch)) return;
  EventV5 event = {};
  event.type = kKernelLaunch;
  event.parent = group_event;
  event.kernel_launch.stream = first.stream_handle;
  plugin.v5->start(context_, handle, &event);
}

void ProfiledComm::OnLaunched(const std::vector<Operation>& operations, bool captured,
                              void* handle) {
  const Plugin& plugin = ThePlugin();
  plugin.Stop(handle);
  if (captured) return;
  void* group = nullptr;
  if (plugin.Wants(kGroup | kColl | kP2p | kBelow)) {
    if (plugin.v4 != nullptr) {
      EventV4 event = {};
      event.type = kGroup;
      plugin.v4->start(context_, &group, &event);
    } else {
      EventV5 event = {};
      event.type = kGroup;
      plugin.v5->start(context_, &group, &event);
    }
  }
  for (const Operation& operation : operations) OnTask(operation, group);
  plugin.Stop(group);
}

void ProfiledComm::OnTask(const Operation& operation, void* group) {
  const Plugin& plugin = ThePlugin();
  const bool transfer = operation.IsPointToPoint();
  const uint64_t number = numbers_[static_cast<size_t>(operation.kind) % numbers_.size()]++;
  if (!plugin.Wants((transfer ? kP2p : kColl) | kBelow)) return;
  void* handle = nullptr;
  const CollV4 coll = {number,
                       NameOf(operation.kind),
                       operation.send,
                       operation.recv,
                       operation.count,
                       operation.root,
                       NameOfType(operation.datatype),
                       1,
                       16,
                       "RING",
                       "LL"};
  void* buffer =
      const_cast<std::byte*>(operation.kind == Kind::kSend ? operation.send : operation.recv);
  if (plugin.v4 != nullptr) {
    EventV4 event = {};
    event.type = static_cast<uint8_t>(transfer ? kP2p : kColl);
    event.parent = group;
    if (transfer) {
      event.p2p = {NameOf(operation.kind), buffer,         NameOfType(operation.datatype),
                   operation.count,        operation.root, 1};
    } else {
      event.coll = coll;
    }
    plugin.v4->start(context_, &handle, &event);
  } else {
    EventV5 event = {};
    event.type = transfer ? kP2p : kColl;
    event.parent = operation.call_event;
    if (transfer) {
      event.p2p = {NameOf(operation.kind),
                   buffer,
                   NameOfType(operation.datatype),
                   operation.count,
                   operation.root,
                   1,
                   group};
    } else {
      event.coll = {coll, group, nullptr, false, operation.profiler_tag};
    }
    plugin.v5->start(context_, &handle, &event);
  }
  plugin.Stop(handle);
}

void ProfileGroupEnd() {
  if (group_event != nullptr) ThePlugin().v5->record(group_event, kGroupEndApiStart, nullptr);
}

void ProfileGroupStop() {
  if (!group_open) return;
  group_open = false;
  ThePlugin().Stop(std::exchange(group_event, nullptr));
}

}  // namespace gordian::emu::nccl
