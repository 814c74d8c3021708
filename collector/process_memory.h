// Memory of another process, read without stopping it. What comes back may be of a moment that
// never was, since the process runs on: callers check whatever they use.
#ifndef GORDIAN_COLLECTOR_PROCESS_MEMORY_H_
#define GORDIAN_COLLECTOR_PROCESS_MEMORY_H_

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

  // All of it or nothing. False: not mapped, gone, or not permitted (then error() is EPERM).
  bool Read(uint64_t address, void* to, size_t bytes);
  // As much from `address` on as can be had.
  size_t ReadSome(uint64_t address, void* to, size_t bytes);

  template <typename T>
  std::optional<T> Get(uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    return Read(address, &value, sizeof(value)) ? std::optional<T>(value) : std::nullopt;
  }

  int error() const { return error_; }  // errno of the last read that failed; 0: none did

 private:
  const pid_t pid_;
  int error_ = 0;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_MEMORY_H_
