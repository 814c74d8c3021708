// Allocates memory that other processes can map: slices of one memfd, which another process of the
// same user opens as /proc/<pid>/fd/<fd>. Large blocks are separate mappings, so a use after free
// faults; small ones share mappings.
//
// Sizes in bytes. Threads: one at a time (the owner locks). Ownership: blocks stay mapped after the
// heap's end, since others may still use them.
#ifndef GORDIAN_EMULATOR_ENGINE_MEMORY_SHARED_HEAP_H_
#define GORDIAN_EMULATOR_ENGINE_MEMORY_SHARED_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gordian::emu {

class SharedHeap {
 public:
  struct Block {
    void* address = nullptr;
    uint64_t offset = 0;  // in the memfd
  };

  // Reserves `header_bytes` at the start of the memfd for its owner.
  explicit SharedHeap(const char* name, uint64_t header_bytes = 0);
  ~SharedHeap();
  SharedHeap(const SharedHeap&) = delete;

  // Aligns the block to 256 bytes, or to a page from kLargeBytes on. Returns false if there is no
  // memory.
  bool Allocate(size_t bytes, Block* block);
  // `bytes` as requested.
  void Free(const Block& block, size_t bytes);

  // -1 if this system gives no shareable memory; the heap still works.
  int fd();

  static constexpr size_t kLargeBytes = 128 << 10;

 private:
  bool MapNext(size_t bytes, Block* block);

  const char* const name_;
  int fd_ = -1;
  bool opened_ = false;
  uint64_t file_bytes_ = 0;
  uint64_t next_offset_;
  Block slab_;  // where the next small block comes from
  size_t slab_left_ = 0;
  std::vector<std::vector<Block>> free_;  // small blocks, by size class
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_MEMORY_SHARED_HEAP_H_
