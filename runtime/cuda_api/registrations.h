// What a communicator's member has registered: buffers of the program's that all other members have
// mapped, so that its outputs there are written by them directly.
//
// Thread rule: any thread.
#ifndef GORDIAN_RUNTIME_CUDA_API_REGISTRATIONS_H_
#define GORDIAN_RUNTIME_CUDA_API_REGISTRATIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda_api/exports.h"

namespace gordian::runtime::cuda {

class Registrations : public OutputReach {
 public:
  // `range`: the base of the device's own.
  Registrations(Exports* exports, const char* range)
      : exports_(exports), range_(reinterpret_cast<uintptr_t>(range)) {}

  // Its number, from 1.
  uint64_t Add(const void* memory, uint64_t bytes, std::shared_ptr<Exports::Export> as);
  // Null: there is none of that number.
  std::shared_ptr<Exports::Export> Remove(uint64_t number);
  std::vector<std::shared_ptr<Exports::Export>> RemoveAll();

  uintptr_t Find(uintptr_t begin, uintptr_t end) override;
  std::shared_ptr<void> Hold(uintptr_t begin, uintptr_t end) override;

 private:
  struct Registered {
    uintptr_t begin, end;
    std::shared_ptr<Exports::Export> as;
  };
  std::shared_ptr<Exports::Export> Around(uintptr_t begin, uintptr_t end);

  Exports* const exports_;  // never destroyed
  const uintptr_t range_;
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::map<uint64_t, Registered> registered_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_REGISTRATIONS_H_
