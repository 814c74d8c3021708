// Reads another process's memory without stopping it. The process runs on, so one read may mix
// states that never existed together: callers check every value they use.
#ifndef GORDIAN_COLLECTOR_PROCESS_PROCESS_MEMORY_H_
#define GORDIAN_COLLECTOR_PROCESS_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace gordian::collector {

// Not thread-safe. Holds nothing open.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}

  // Reads all bytes or returns false: not mapped, process ended, or not permitted (error() is
  // EPERM).
  bool Read(uint64_t address, void* to, size_t bytes);
  // Reads as many bytes from `address` on as possible; returns how many.
  size_t ReadSome(uint64_t address, void* to, size_t bytes);

  template <typename T>
  std::optional<T> Get(uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    return Read(address, &value, sizeof(value)) ? std::optional<T>(value) : std::nullopt;
  }

  // Whether the instruction before `address` is a call, as it is before an address that a call has left
  // on a stack. Numbers on it may be addresses of code by chance.
  bool FollowsCall(uint64_t address);

  int error() const { return error_; }  // errno of the last failed read; 0: none failed

 private:
  const pid_t pid_;
  int error_ = 0;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_PROCESS_MEMORY_H_
