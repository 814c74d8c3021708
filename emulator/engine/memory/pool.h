// A pool of stream-ordered device memory (pools.cc has the rules). Only emulator/engine includes
// this. Sizes in bytes.
#ifndef GORDIAN_EMULATOR_ENGINE_MEMORY_POOL_H_
#define GORDIAN_EMULATOR_ENGINE_MEMORY_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/memory/shared_heap.h"

namespace gordian::emu {

// The scheduler's lock guards it.
struct MemoryPool {
  struct Piece {
    SharedHeap::Block block;
    size_t bytes = 0;        // rounded up
    size_t asked_bytes = 0;  // the program's size
    TaskPtr freed;  // of a cached piece: the work that its last user's stream must finish first
    uint64_t stream_id = 0;  // of a cached piece: the stream of its free; 0: cudaFree
  };

  int device = 0;
  bool is_default = false;
  bool shareable = false;
  bool destroyed = false;  // removed with its last live piece
  int imported_fd = -1;    // of an imported pool: gives no allocations
  size_t max_bytes = 0;
  bool follow_event_dependencies = true;
  bool allow_opportunistic = true;
  bool allow_internal_dependencies = true;
  uint64_t release_threshold = 0;
  uint64_t reserved = 0;  // live and cached pieces
  uint64_t reserved_high = 0;
  uint64_t used = 0;
  uint64_t used_high = 0;
  std::unique_ptr<SharedHeap> heap;
  std::multimap<size_t, Piece> cached;  // by bytes
  std::unordered_map<void*, Piece> live;
  std::map<int, unsigned> access;  // of other devices
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_MEMORY_POOL_H_
