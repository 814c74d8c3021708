// A pool of stream-ordered device memory. Only emulator/engine includes this.
#ifndef GORDIAN_EMULATOR_ENGINE_POOL_H_
#define GORDIAN_EMULATOR_ENGINE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "emulator/engine/scheduler.h"
#include "emulator/engine/shared_heap.h"

namespace gordian::emu {

// Under the scheduler's lock.
struct MemoryPool {
  struct Piece {
    SharedHeap::Block block;
    size_t bytes = 0;        // rounded up
    size_t asked_bytes = 0;  // by the program
    TaskPtr freed;           // of a cached one: what its last user's stream must have done first
    uint64_t stream_id = 0;  // of a cached one: on which it was freed; 0: by cudaFree
  };

  int device = 0;
  bool is_default = false;
  bool shareable = false;
  bool destroyed = false;  // goes with its last live piece
  int imported_fd = -1;    // of an imported pool: nothing is allocated from it
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

#endif  // GORDIAN_EMULATOR_ENGINE_POOL_H_
