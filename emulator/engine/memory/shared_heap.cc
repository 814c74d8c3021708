#include "emulator/engine/memory/shared_heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace gordian::emu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlabBytes = 2 << 20;
constexpr size_t kSmallestBytes = 256;
// The file is sparse; offsets are never reused, so a peer's stale mapping cannot reach another
// allocation's data.
constexpr uint64_t kFileStep = uint64_t{1} << 42;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

size_t SizeClass(size_t bytes) {
  size_t size_class = 0;
  while ((kSmallestBytes << size_class) < bytes) ++size_class;
  return size_class;
}

}  // namespace

SharedHeap::SharedHeap(const char* name, uint64_t header_bytes)
    : name_(name), next_offset_(RoundUp(header_bytes, kPage)) {
  free_.resize(SizeClass(kLargeBytes) + 1);
}

// Blocks stay mapped: their holders may still use them.
SharedHeap::~SharedHeap() {
  if (fd_ >= 0) close(fd_);
}

int SharedHeap::fd() {
  if (opened_) return fd_;
  opened_ = true;
  rlimit limit{};
  // Growing a file beyond this limit raises SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return -1;
  fd_ = memfd_create(name_, MFD_CLOEXEC);
  if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(kFileStep)) != 0) {
    close(fd_);
    fd_ = -1;
  }
  file_bytes_ = kFileStep;
  return fd_;
}

bool SharedHeap::MapNext(size_t bytes, Block* block) {
  const int file = fd();
  if (next_offset_ + bytes > file_bytes_ && file >= 0) {
    const uint64_t wanted = file_bytes_ + RoundUp(bytes, kFileStep);
    if (ftruncate(file, static_cast<off_t>(wanted)) != 0) return false;
    file_bytes_ = wanted;
  }
  const int flags = (file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file,
                            file >= 0 ? static_cast<off_t>(next_offset_) : 0);
  if (memory == MAP_FAILED) return false;
  *block = {memory, next_offset_};
  next_offset_ += bytes;
  return true;
}

bool SharedHeap::Allocate(size_t bytes, Block* block) {
  if (bytes >= kLargeBytes) {
    // A program may take most of a device's memory and touch little of it.
    return bytes <= SIZE_MAX / 2 && MapNext(RoundUp(bytes, kPage), block);
  }
  const size_t size_class = SizeClass(bytes);
  const size_t size = kSmallestBytes << size_class;
  std::vector<Block>& free = free_[size_class];
  if (!free.empty()) {
    *block = free.back();
    free.pop_back();
    return true;
  }
  if (slab_left_ < size) {
    if (!MapNext(kSlabBytes, &slab_)) return false;
    slab_left_ = kSlabBytes;
  }
  *block = slab_;
  slab_.address = static_cast<char*>(slab_.address) + size;
  slab_.offset += size;
  slab_left_ -= size;
  return true;
}

void SharedHeap::Free(const Block& block, size_t bytes) {
  if (bytes < kLargeBytes) {
    free_[SizeClass(bytes)].push_back(block);
    return;
  }
  const size_t size = RoundUp(bytes, kPage);
  munmap(block.address, size);
  if (fd_ >= 0) {
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(block.offset),
              static_cast<off_t>(size));
  }
}

}  // namespace gordian::emu
