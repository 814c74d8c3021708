// Maps memory that several processes share under a name. The first process to open the name creates
// the memory, as zeros; the caller removes the name when all have opened it (Unlink). A process
// maps a name once, so that all of its ranks see the same addresses.
//
// Sizes in bytes. Threads: any. Ownership: the mapping ends with the last shared_ptr. Errors: null,
// with errno.
#ifndef GORDIAN_RUNTIME_CPU_SHARED_MEMORY_H_
#define GORDIAN_RUNTIME_CPU_SHARED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gordian::runtime {

class SharedMemory {
 public:
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // `name` has no slashes. All callers pass the same size for a name; within a process another one
  // is EINVAL.
  static std::shared_ptr<SharedMemory> Open(const std::string& name, size_t bytes);

  void* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // Takes the pages now, so that a write to them cannot fail later. False: there is no room.
  bool Reserve(size_t offset, size_t bytes);
  void Unlink();
  // Closes the file descriptor, for callers that keep many mappings. The memory stays mapped, but
  // Reserve no longer works. No other thread may call a method at the same time.
  void CloseDescriptor();
  // For a process that could not open or map the memory: writes a word, if it is still 0, through
  // the file, for the processes that can map it.
  static void LeaveWord(const std::string& name, size_t offset, uint64_t value);

  // Ranks of this process that use it; counted by its users.
  std::atomic<uint32_t> local_users{0};

 private:
  SharedMemory(std::string name, int fd, void* base, size_t bytes)
      : name_(std::move(name)), fd_(fd), base_(base), bytes_(bytes) {}

  const std::string name_;
  std::atomic<int> fd_;  // -1: closed
  void* const base_;
  const size_t bytes_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_SHARED_MEMORY_H_
