#include "interpose/real_symbols.h"

#include <dlfcn.h>
#include <errno.h>

#include "interpose/glibc_floor.h"

GORDIAN_BIND_FIRST_VERSION(dlsym);
GORDIAN_BIND_FIRST_VERSION(dlopen);
GORDIAN_BIND_FIRST_VERSION(dlclose);
GORDIAN_BIND_FIRST_VERSION(dlerror);

namespace gordian::interpose {

std::atomic<void*> g_real_symbols[ring::kCallCount];

namespace {

constexpr const char* kNcclNames[] = {"libnccl.so.2", nullptr};
constexpr const char* kRuntimeNames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                         nullptr};
constexpr const char* kDriverNames[] = {"libcuda.so.1", nullptr};

const char* const* NamesOf(Library library) {
  switch (library) {
    case Library::kNccl:
      return kNcclNames;
    case Library::kRuntime:
      return kRuntimeNames;
    case Library::kDriver:
      return kDriverNames;
  }
  return kDriverNames;
}

Library LibraryOf(ring::CallId call) {
  const char* name = ring::kCalls[call].library;  // "nccl", "cudart" or "cuda"
  if (name[0] == 'n') return Library::kNccl;
  return name[4] == 'r' ? Library::kRuntime : Library::kDriver;
}

}  // namespace

void* FindInLibrary(Library library, const char* name) {
  for (const char* const* soname = NamesOf(library); *soname != nullptr; ++soname) {
    void* handle = dlopen(*soname, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    void* found = dlsym(handle, name);
    // What we hand out we keep loaded: the address is cached, and the application may dlclose.
    if (found != nullptr) return found;
    dlclose(handle);
  }
  // What failed above is ours; the application must not meet it in its next dlerror().
  dlerror();
  return nullptr;
}

void* FindRealSymbol(ring::CallId call) {
  const int saved_errno = errno;
  void* found = dlsym(RTLD_NEXT, ring::kCalls[call].name);
  if (found == nullptr) {
    dlerror();
    found = FindInLibrary(LibraryOf(call), ring::kCalls[call].name);
  }
  if (found != nullptr) g_real_symbols[call].store(found, std::memory_order_relaxed);
  errno = saved_errno;
  return found;
}

}  // namespace gordian::interpose
