// The functions behind ours, and those that the shim calls for itself.
//
// A process may hold several copies of a library: a call goes to the one that its caller would have
// reached without the shim. That is the next definition in the global scope, else the one in the
// caller's own scope (a file that was opened RTLD_LOCAL), else whichever copy is loaded. What was
// found is remembered for the caller's file, until something is closed.
//
// Thread-safe; the first look-up of a symbol may take the loader's lock and allocate, later ones
// are a few loads. In a child that was forked it takes no lock while the child has but one thread.
// A symbol that is not there (yet) is looked for again at the next call.
#ifndef GORDIAN_INTERPOSE_ENTRY_REAL_SYMBOLS_H_
#define GORDIAN_INTERPOSE_ENTRY_REAL_SYMBOLS_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "proto/ring/calls.h"

// Set by a thunk (interpose/entry/lookup_hooks.cc) just before it goes on to a row's function: 0,
// or slot
// + 1 in the upper half and the row in the lower one. Which library a pointer was looked up in.
extern "C" {
extern __attribute__((visibility("hidden"),
                      tls_model("initial-exec"))) thread_local constinit uint32_t gordian_bound;
}

namespace gordian::interpose {

using ring::Library;

// Where calls of one row from one file go.
struct Route {
  uintptr_t low;
  uintptr_t size;
  void* real;
  std::atomic<uint32_t> generation;  // older than g_closings: something was closed since
  Route* next;
};
extern std::atomic<Route*> g_routes[ring::kCallCount];
extern std::atomic<uint32_t> g_closings;

// Copies of one library that pointers were looked up in.
inline constexpr uint32_t kCopies = 8;
extern std::atomic<void*> g_bound[kCopies][ring::kCallCount];

// Null when no loaded library has it. Keeps errno.
void* FindRealSymbol(ring::CallId call, const void* caller);

inline void* RealSymbol(ring::CallId call, const void* caller) {
  const uint32_t bound = gordian_bound;
  if (__builtin_expect(bound != 0, 0)) {
    gordian_bound = 0;
    if ((bound & 0xffff) == call) {
      return g_bound[(bound >> 16) - 1][call].load(std::memory_order_relaxed);
    }
  }
  const Route* route = g_routes[call].load(std::memory_order_acquire);
  if (__builtin_expect(route != nullptr &&
                           reinterpret_cast<uintptr_t>(caller) - route->low < route->size &&
                           route->generation.load(std::memory_order_relaxed) ==
                               g_closings.load(std::memory_order_relaxed),
                       1)) {
    return route->real;
  }
  return FindRealSymbol(call, caller);
}

// As above, in the scopes that the caller itself would search: null where it would find nothing.
void* FindInScope(ring::CallId call, const void* caller);

// A function of the runtime or driver that is not a row of the table, or whose row is passed over.
// Never loads a library; keeps it loaded from then on. Null when it is not there.
void* FindInLibrary(Library library, const char* name);

// A function of the file that `function` belongs to.
void* FindBeside(const void* function, const char* name);

// What the loaded file, or one that it was linked to, defines; never the shim's.
void* FindInFile(const char* path, const char* name);
// ... of the file that `function` belongs to.
void* FindBehind(const void* function, const char* name);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_REAL_SYMBOLS_H_
