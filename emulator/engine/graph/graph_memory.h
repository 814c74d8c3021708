// Manages memory that graphs allocate. An alloc node owns an address from its creation; an
// allocation lies behind the address from the launch that runs the node until a free. The order of
// the host's calls decides when that is: the application ensures the order on the device.
//
// In the emulator the address holds memory all the time, which no program can notice; the counters
// follow the allocations.
//
// Sizes in bytes. Threads: any. Ownership: an address is freed with the last reference to its
// GraphAllocation.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_MEMORY_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/engine/graph/graph_api.h"
#include "emulator/engine/memory/memory.h"

namespace gordian::emu {

class GraphMemoryPool;

struct GraphAllocation {
  GraphMemoryPool* pool = nullptr;
  void* pointer = nullptr;  // null after a reset of the device
  size_t bytes = 0;
  int device = 0;
  uint64_t owner = 0;     // id of the graph with the alloc node
  uint64_t freed_in = 0;  // id of the graph with the free node; 0: none
  ~GraphAllocation();
};

class GraphMemoryPool {
 public:
  explicit GraphMemoryPool(std::unique_ptr<MemoryTable>& memory) : memory_(memory) {}

  // Returns null if there is no memory.
  std::shared_ptr<GraphAllocation> Reserve(size_t bytes, int device, uint64_t owner);
  std::shared_ptr<GraphAllocation> Find(const void* pointer);
  bool IsLive(const GraphAllocation& allocation);
  // Call when a launch runs the alloc node.
  void MakeLive(const std::shared_ptr<GraphAllocation>& allocation);
  // Ends the allocation. Returns null if `pointer` is not live; else the address, which the caller
  // keeps until the device gets there.
  std::shared_ptr<GraphAllocation> End(const void* pointer);
  void ResetDevice(int device);

  int GetAttribute(int device, GraphMemory attribute, uint64_t* value);
  int SetAttribute(int device, GraphMemory attribute, uint64_t value);
  void Trim(int device);

 private:
  friend struct GraphAllocation;
  struct Counters {
    uint64_t used = 0;
    uint64_t used_high = 0;
    uint64_t reserved = 0;
    uint64_t reserved_high = 0;
  };

  void Unreserve(GraphAllocation* allocation);

  std::unique_ptr<MemoryTable>& memory_;  // null until the engine is initialised
  std::mutex mutex_;
  std::map<const void*, std::weak_ptr<GraphAllocation>> known_;
  std::map<const void*, std::shared_ptr<GraphAllocation>> live_;
  std::map<int, Counters> counters_;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_MEMORY_H_
