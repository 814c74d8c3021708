// The handles that ncclCommRegister and ncclCommWindowRegister gave out on one communicator.
// Registration speeds nothing up here; remembering the handles makes a wrong one an error, as in
// NCCL.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_REGISTRATIONS_H_
#define GORDIAN_EMULATOR_NCCL_COMM_REGISTRATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "emulator/nccl/api/nccl_header.h"

namespace gordian::emu::nccl {

// Threads: any.
class Registrations {
 public:
  // Returns the same handle for the same pages, which the caller must then release as often.
  void* Add(const void* buffer, size_t size);
  bool Remove(void* handle);

  // `ordinal`: the index, from 0, among the communicator's window registrations, the same at all
  // members.
  ncclWindow_t AddWindow(uint64_t ordinal);
  bool FindWindow(ncclWindow_t window, uint64_t* ordinal);
  bool RemoveWindow(ncclWindow_t window);

 private:
  struct Pages {
    uintptr_t begin;
    uintptr_t end;
    int references;
  };

  std::mutex mutex_;
  std::map<void*, Pages> buffers_;
  std::map<void*, uint64_t> windows_;  // ordinals
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_REGISTRATIONS_H_
