// Memory that several processes map under one name. Who comes first makes it, as zeros; the name is
// gone once everyone has come (Unlink). Within a process a name is mapped once, so that all of its
// ranks see the same addresses.
//
// Threads: any. Errors: null, with errno.
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

  // `name` without slashes. All that open a name give the same size; within a process another one
  // is EINVAL.
  static std::shared_ptr<SharedMemory> Open(const std::string& name, size_t bytes);

  void* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // Takes the pages now, so that a write to them cannot fail later. False: there is no room.
  bool Reserve(size_t offset, size_t bytes);
  void Unlink();
  // It stays mapped; nothing more can be reserved. For who keeps many of them. Not beside other
  // calls on it.
  void CloseDescriptor();
  // For who could not open or map it: writes a word that is 0 so far, for those who can to read.
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
