// The part of NCCL's profiler plugin interface, versions 4 (NCCL 2.27), 5 (2.28), 6 (2.29) and 7
// (2.31), that the shim reads, declared anew after NCCL's published headers (github.com/NVIDIA/nccl,
// plugins/profiler/example/nccl/profiler_v4.h to profiler_v7.h, and profiler.h for the numbers;
// which calls make which events: src/plugin/profiler.cc).
//
// The descriptions of an event agree in all fields read here: a head of 24 bytes, then a union
// whose members have the same first fields. They differ in length, and version 4 has a one-byte
// type.
#ifndef GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_ABI_H_
#define GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_ABI_H_

#include <stddef.h>
#include <stdint.h>

namespace gordian::interpose::profiler {

enum EventType : uint32_t {
  kGroup = 1 << 0,  // a plan is launched
  kColl = 1 << 1,   // a collective of the plan
  kP2p = 1 << 2,    // a send or receive of the plan
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyCtrl = 1 << 5,
  kKernelCh = 1 << 6,
  kNetPlugin = 1 << 7,
  kGroupApi =
      1 << 8,         // from version 5: from the first operation of a group to the end of the group
  kCollApi = 1 << 9,  // from version 5: the call of a collective
  kP2pApi = 1 << 10,  // from version 5: the call of a send or receive
  kKernelLaunch = 1 << 11,  // from version 5: NCCL launches a kernel
  kCeColl = 1 << 12,
  kCeSync = 1 << 13,
  kCeBatch = 1 << 14,
};

inline constexpr int kGroupEndApiStart = 24;  // state of a kGroupApi event: ncclGroupEnd was called

struct GroupApiFields {
  bool graph_captured;
  int group_depth;  // 1: NCCL's own group around one call; more: the application's
};
struct CollApiFields {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};
struct P2pApiFields {  // only the kP2p event names the peer
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
struct CollFields {
  uint64_t number;  // among the collectives of the same kind
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;  // from version 5
};
struct P2pFields {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;  // from version 5
};

struct Description {
  uint64_t type;  // version 4: the lowest byte only
  void* parent;   // the handle of another event
  int rank;       // 0 at every rank in some releases
  union {
    GroupApiFields group_api;
    CollApiFields coll_api;
    P2pApiFields p2p_api;
    CollFields coll;
    P2pFields p2p;
    char longest[112];  // version 7: an operation with its kernel's name and the caller's tag
  };
};
static_assert(offsetof(Description, group_api) == 24 && sizeof(Description) == 136);
static_assert(offsetof(CollFields, parent_group) == 80 && offsetof(P2pFields, parent_group) == 40);

constexpr size_t BytesOfDescription(int version) {
  return version == 4 ? 104 : version < 7 ? 112 : 136;
}

// What NCCL looks up: a name and five functions, which all return an ncclResult_t.
struct TableV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes,
              int ranks, int rank, void* log);
  int (*start_event)(void* context, void** handle, Description* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
struct TableV5 {  // and versions 6 and 7
  const char* name;
  int (*init)(void** context, uint64_t comm_id, int* mask, const char* comm_name, int nodes,
              int ranks, int rank, void* log);
  int (*start_event)(void* context, void** handle, Description* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

}  // namespace gordian::interpose::profiler

#endif  // GORDIAN_INTERPOSE_SOURCES_NCCL_PROFILER_ABI_H_
