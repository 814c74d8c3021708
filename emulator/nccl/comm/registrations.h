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
  // members. `symmetric`: with NCCL_WIN_COLL_SYMMETRIC.
  ncclWindow_t AddWindow(uint64_t ordinal, const void* buffer, size_t size, bool symmetric);
  bool FindWindow(ncclWindow_t window, uint64_t* ordinal);
  // Whether all of the bytes lie in one symmetric window.
  bool InSymmetricWindow(const void* data, size_t bytes);
  bool RemoveWindow(ncclWindow_t window);

 private:
  struct Pages {
    uintptr_t begin;
    uintptr_t end;
    int references;
  };

  struct Registered {
    uint64_t ordinal;
    uintptr_t begin;
    uintptr_t end;
    bool symmetric;
  };

  std::mutex mutex_;
  std::map<void*, Pages> buffers_;
  std::map<void*, Registered> windows_;
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_REGISTRATIONS_H_
