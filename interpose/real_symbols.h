// The functions behind ours, and those that the shim calls for itself.
//
// Thread-safe; the first look-up of a symbol may take the loader's lock and allocate, later ones
// are one atomic load. A symbol that is not there (yet) is looked for again at the next call.
#ifndef GORDIAN_INTERPOSE_REAL_SYMBOLS_H_
#define GORDIAN_INTERPOSE_REAL_SYMBOLS_H_

#include <atomic>

#include "proto/ring/calls.h"

namespace gordian::interpose {

extern std::atomic<void*> g_real_symbols[ring::kCallCount];

// Null when no loaded library has it. Keeps errno.
void* FindRealSymbol(ring::CallId call);

inline void* RealSymbol(ring::CallId call) {
  void* found = g_real_symbols[call].load(std::memory_order_relaxed);
  return __builtin_expect(found != nullptr, 1) ? found : FindRealSymbol(call);
}

enum class Library { kNccl, kRuntime, kDriver };

// A function that is not a row of the table. Never loads a library. Null when it is not there.
void* FindInLibrary(Library library, const char* name);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_REAL_SYMBOLS_H_
