// What ncclCommRegister and ncclCommWindowRegister gave out on one communicator. Registration makes
// nothing faster here; the handles are remembered so that a wrong one is an error as it is in NCCL.
#ifndef GORDIAN_EMULATOR_NCCL_REGISTRATIONS_H_
#define GORDIAN_EMULATOR_NCCL_REGISTRATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "emulator/nccl/nccl_header.h"

namespace gordian::emu::nccl {

// Threads: any.
class Registrations {
 public:
  // The same handle for the same pages, which then have to be given back as often.
  void* Add(const void* buffer, size_t size);
  bool Remove(void* handle);

  // `ordinal`: the how-manieth registration of a window on the communicator it was, from 0, the
  // same at all members.
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

#endif  // GORDIAN_EMULATOR_NCCL_REGISTRATIONS_H_
