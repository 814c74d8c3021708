#include "interpose/entry/real_symbols.h"

#include <dlfcn.h>
#include <errno.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/loader.h"

GORDIAN_BIND_FIRST_VERSION(dlopen);
GORDIAN_BIND_FIRST_VERSION(dlerror);

thread_local constinit uint32_t gordian_bound = 0;

namespace gordian::interpose {

std::atomic<Route*> g_routes[ring::kCallCount];
std::atomic<uint32_t> g_closings;
std::atomic<void*> g_bound[kCopies][ring::kCallCount];

namespace {

constexpr const char* kNcclNames[] = {"libnccl.so.2", nullptr};
constexpr const char* kRuntimeNames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                         nullptr};
constexpr const char* kDriverNames[] = {"libcuda.so.1", nullptr};
constexpr const char* kNoNames[] = {nullptr};

const char* const* NamesOf(Library library) {
  switch (library) {
    case Library::kNccl:
      return kNcclNames;
    case Library::kRuntime:
      return kRuntimeNames;
    case Library::kDriver:
      return kDriverNames;
    case Library::kTorch:
    case Library::kNone:
      break;
  }
  return kNoNames;
}

// Routes are never freed: a thread may be reading one. When they have run out, each call looks
// anew. No lock: after a fork while another thread held it, the child could never take it.
constexpr uint32_t kMostRoutes = 4096;
constinit Route g_route_pool[kMostRoutes] = {};
constinit std::atomic<uint32_t> g_routes_used = 0;

constexpr uintptr_t kEverywhere = UINTPTR_MAX;
constexpr uintptr_t kPage = 4096;

// A route that was found before a dlclose and is found again gets the new generation. Two threads
// that come here at once may add the same route twice.
void Remember(ring::CallId call, uintptr_t low, uintptr_t size, void* real, uint32_t generation) {
  Route* first = g_routes[call].load(std::memory_order_acquire);
  for (Route* route = first; route != nullptr; route = route->next) {
    if (route->low == low && route->size == size && route->real == real) {
      route->generation.store(generation, std::memory_order_relaxed);
      return;
    }
  }
  if (g_routes_used.load(std::memory_order_relaxed) >= kMostRoutes) return;
  const uint32_t index = g_routes_used.fetch_add(1, std::memory_order_relaxed);
  if (index >= kMostRoutes) return;
  Route& route = g_route_pool[index];
  route.low = low;
  route.size = size;
  route.real = real;
  route.generation.store(generation, std::memory_order_relaxed);
  do {
    route.next = first;
  } while (!g_routes[call].compare_exchange_weak(first, &route, std::memory_order_release,
                                                 std::memory_order_acquire));
}

// In the file itself and what it was linked to, or a null pointer.
void* FindFrom(const char* path, const char* name) {
  void* handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  void* found = Loader().dlsym(handle, name);
  Loader().dlclose(handle);
  return found;
}

void* FindInScopeOf(ring::CallId call, const Module& caller, bool* everywhere) {
  const char* name = ring::kCalls[call].name;
  void* found = Loader().dlsym(RTLD_NEXT, name);
  *everywhere = found != nullptr;
  if (found == nullptr && caller.found() && !caller.main_program && !IsShim(caller)) {
    found = FindFrom(caller.path, name);
    // What the file would have got from us by itself is no answer.
    if (found != nullptr && IsShim(ModuleOf(found))) found = nullptr;
  }
  return found;
}

// For a forked child with one thread: finds the function as the parent would, which found one of
// the library in the global scope, or if only one copy of the library is loaded. Does not take the
// loader's lock, which a thread of the parent may have held.
void* FindAfterFork(Library library, const char* name) {
  const void* beside = nullptr;
  for (uint32_t call = 0; call < ring::kCallCount && beside == nullptr; ++call) {
    if (ring::kCalls[call].library != library) continue;
    const Route* route = g_routes[call].load(std::memory_order_acquire);
    for (; route != nullptr && beside == nullptr; route = route->next) {
      if (route->size == kEverywhere) beside = route->real;
    }
  }
  return FindWithoutLock(NamesOf(library), name, beside);
}

}  // namespace

void* FindInLibrary(Library library, const char* name) {
  if (IsAloneAfterFork()) return FindAfterFork(library, name);
  for (const char* const* soname = NamesOf(library); *soname != nullptr; ++soname) {
    void* handle = dlopen(*soname, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    void* found = Loader().dlsym(handle, name);
    // What we hand out we keep loaded: the address is cached, and the application may dlclose.
    if (found != nullptr) return found;
    Loader().dlclose(handle);
  }
  // What failed above is ours; the application must not meet it in its next dlerror().
  dlerror();
  return nullptr;
}

void* FindBeside(const void* function, const char* name) {
  if (IsAloneAfterFork()) {
    const Library library = BeginsWith(name, "nccl")   ? Library::kNccl
                            : BeginsWith(name, "cuda") ? Library::kRuntime
                                                       : Library::kDriver;
    return FindWithoutLock(NamesOf(library), name, function);
  }
  const Module module = ModuleOf(function);
  if (!module.found() || module.main_program) return nullptr;
  void* found = FindFrom(module.path, name);
  if (found == nullptr) dlerror();
  return found;
}

void* FindInFile(const char* path, const char* name) {
  void* found = FindFrom(path, name);
  if (found == nullptr) dlerror();
  return found != nullptr && IsShim(ModuleOf(found)) ? nullptr : found;
}

void* FindBehind(const void* function, const char* name) {
  const Module module = ModuleOf(function);
  return module.found() && !module.main_program ? FindInFile(module.path, name) : nullptr;
}

void* FindInScope(ring::CallId call, const void* caller) {
  const int saved_errno = errno;
  bool everywhere = false;
  void* found = FindInScopeOf(call, ModuleOf(caller), &everywhere);
  if (found == nullptr) dlerror();
  errno = saved_errno;
  return found;
}

void* FindRealSymbol(ring::CallId call, const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  // Before the search: what is closed during it makes its result old.
  const uint32_t generation = g_closings.load(std::memory_order_acquire);
  for (const Route* route = g_routes[call].load(std::memory_order_acquire); route != nullptr;
       route = route->next) {
    if (address - route->low < route->size &&
        route->generation.load(std::memory_order_relaxed) == generation) {
      return route->real;
    }
  }
  const int saved_errno = errno;
  if (IsAloneAfterFork()) {
    void* found = FindAfterFork(ring::kCalls[call].library, ring::kCalls[call].name);
    errno = saved_errno;
    if (found != nullptr) {
      Remember(call, address & ~(kPage - 1), kPage, found, generation);
      return found;
    }
  }
  NoteHome();
  const Module module = ModuleOf(caller);
  bool everywhere = false;
  void* found = FindInScopeOf(call, module, &everywhere);
  if (found == nullptr) {
    dlerror();
    for (const char* const* soname = NamesOf(ring::kCalls[call].library);
         found == nullptr && *soname != nullptr; ++soname) {
      found = FindFrom(*soname, ring::kCalls[call].name);
    }
    if (found == nullptr) dlerror();
  }
  if (found != nullptr && everywhere) {
    Remember(call, 0, kEverywhere, found, generation);
  } else if (found != nullptr && module.found()) {
    Remember(call, module.low, module.high - module.low, found, generation);
  } else if (found != nullptr) {  // from code that was made at run time
    Remember(call, address & ~(kPage - 1), kPage, found, generation);
  }
  errno = saved_errno;
  return found;
}

}  // namespace gordian::interpose
