// Functions that programs look up by name: dlsym and its kin, cuGetProcAddress,
// cudaGetDriverEntryPoint. Where the answer would be a function of a row, ours is handed out
// instead, and remembers the real one of the very library that was asked.
#ifndef GORDIAN_INTERPOSE_ENTRY_LOOKUP_HOOKS_H_
#define GORDIAN_INTERPOSE_ENTRY_LOOKUP_HOOKS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "proto/ring/calls.h"

namespace gordian::interpose {

// What a look-up in the driver was asked and gave.
struct DriverLookup {
  const char* symbol;
  void** function;
  int version;  // CUDA's, as 13000; 0: that of the runtime which was called
  uint64_t flags;
};
// After a successful look-up: replaces *lookup.function when it is a row. `real`: the function that
// looked; `caller`: who asked.
void SubstituteDriverFunction(ring::CallId call, const void* real, const void* caller,
                              const DriverLookup& lookup);

// The arguments of each form.
inline DriverLookup LookupOf(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* = nullptr) {
  return {symbol, function, version, flags};
}
inline DriverLookup LookupOf(const char* symbol, void** function, unsigned long long flags,
                             cudaDriverEntryPointQueryResult*) {
  return {symbol, function, 0, flags};
}
inline DriverLookup LookupOf(const char* symbol, void** function, unsigned version,
                             unsigned long long flags, cudaDriverEntryPointQueryResult*) {
  return {symbol, function, static_cast<int>(version), flags};
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_LOOKUP_HOOKS_H_
