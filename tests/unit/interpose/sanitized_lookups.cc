// A program that a sanitizer watches looks functions up, with the shim behind the sanitizer's
// runtime. At their start the runtimes look up the functions that they stand in front of: the
// shim's dlsym must work before any of those does, and must leave RTLD_NEXT to its caller.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void Check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "sanitized_lookups: %s\n", what);
  std::exit(1);
}

}  // namespace

int main() {
  void* nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  Check(nccl != nullptr, "libnccl.so.2 is not there");
  for (int i = 0; i < 2; ++i) {
    const auto get = reinterpret_cast<int (*)(int*)>(dlsym(nccl, "ncclGetVersion"));
    int version = 0;
    Check(get != nullptr && get(&version) == 0 && version > 20000, "ncclGetVersion");
    Dl_info where = {};
    Check(dladdr(reinterpret_cast<void*>(get), &where) != 0 &&
              std::strstr(where.dli_fname, "libgordian_interpose") != nullptr,
          "the pointer is not the shim's");
  }
  dlerror();
  Check(dlsym(nccl, "ncclCommSuspend") == nullptr, "a function that is not there");
  const char* error = dlerror();
  Check(error != nullptr && std::strstr(error, "ncclCommSuspend") != nullptr, "dlerror");
  dlerror();
  Check(dlsym(RTLD_DEFAULT, "ncclCommSuspend") == nullptr, "a function that is nowhere");
  error = dlerror();
  Check(error != nullptr && std::strstr(error, "ncclCommSuspend") != nullptr,
        "dlerror, everywhere");
  // The program has no libnccl in its own scope.
  Check(dlsym(RTLD_DEFAULT, "ncclGetVersion") == nullptr, "a function outside of the scope");
  Check(dlsym(RTLD_NEXT, "malloc") != nullptr, "RTLD_NEXT");
  Check(dlvsym(RTLD_DEFAULT, "strlen", "GLIBC_2.2.5") != nullptr, "dlvsym");
  Check(dlclose(nccl) == 0, "dlclose");
  delete new int(1);
  return 0;
}
