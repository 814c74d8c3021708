// Parameters of graph nodes, in a form that the runtime and driver API share: a program may make a
// node through one API and read or change it through the other. Plain data; pointers are the
// program's, except those that a query returns.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_PARAMS_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_PARAMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "emulator/engine/engine.h"
#include "emulator/engine/engine_api.h"

namespace gordian::emu {

// The numbers of cudaGraphNodeType and CUgraphNodeType.
enum class NodeType : int {
  kKernel = 0,
  kCopy = 1,
  kFill = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kWaitEvent = 6,
  kRecordEvent = 7,
  kSemaphoreSignal = 8,
  kSemaphoreWait = 9,
  kAlloc = 10,
  kFree = 11,
  kBatchMemOp = 12,
  kConditional = 13,
};

// Laid out as cudaGraphEdgeData. Programmatic edges are stored and returned, and run as full ones:
// a kernel without a body triggers nothing early.
struct EdgeData {
  uint8_t from_port = 0;
  uint8_t to_port = 0;
  uint8_t type = 0;
  uint8_t reserved[5] = {};

  bool IsDefault() const { return from_port == 0 && to_port == 0 && type == 0; }
  bool operator==(const EdgeData& other) const {
    return from_port == other.from_port && to_port == other.to_port && type == other.type;
  }
};
static_assert(sizeof(EdgeData) == 8);

struct KernelParams {
  const void* function = nullptr;  // the caller's value; null: an operation of a library
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  unsigned shared_bytes = 0;
  int64_t duration_ns = 0;
  bool cooperative = false;
  // The one argument that an emulated kernel reads. Only the device code, which the emulator does
  // not read, says how many others there are and how long: so they are not kept.
  bool has_argument = false;
  uint64_t argument = 0;
  std::array<void*, 1> arguments = {};
  void** told_arguments = nullptr;  // in the result of a query: `arguments` of the node, or null
  std::map<int, std::array<char, 64>> attributes;  // by cudaLaunchAttributeID
  // An operation of the emulated NCCL instead of a kernel without a body.
  std::shared_ptr<OpSource> op;
  int op_sms = 1;
};

struct CopyEnd {
  void* pointer = nullptr;
  size_t pitch = 0;
  size_t row_bytes = 0;  // cudaPitchedPtr::xsize, only for queries
  size_t height = 0;     // rows of a slice
  size_t x = 0, y = 0, z = 0;
  int memory_type = 0;  // CUmemorytype; 0: made through the runtime API

  char* At(size_t row, size_t slice) const {
    return static_cast<char*>(pointer) + ((z + slice) * height + y + row) * pitch + x;
  }
};

struct CopyParams {
  CopyEnd to;
  CopyEnd from;
  size_t width = 0;  // bytes
  size_t height = 1;
  size_t depth = 1;
  CopyKind kind = CopyKind::kDefault;
};

struct HostParams {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
};

// Memory that a graph allocates. Its address belongs to the node while the node lives; it holds
// memory between the launch that allocates it and its free.
struct GraphAllocation;

struct AllocParams {
  size_t bytes = 0;
  int device = 0;
  void* pointer = nullptr;
  std::array<char, 128> pool_properties = {};  // as passed, for queries
  std::vector<std::array<int, 3>> access;      // location type, location, flags
  const void* told_access = nullptr;           // in the result of a query: the node's own
  std::shared_ptr<GraphAllocation> memory;
};

// Only the fields of one type are used.
struct NodeParams {
  NodeType type = NodeType::kEmpty;
  KernelParams kernel;
  CopyParams copy;
  FillRequest fill;
  HostParams host;
  void* event = nullptr;
  AllocParams alloc;      // of kFree, too: pointer and memory
  void* child = nullptr;  // a graph's handle, when a node is made or queried
  bool move_child = false;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_PARAMS_H_
