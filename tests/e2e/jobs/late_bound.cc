// The CUDA and NCCL functions of a job, as forwarders that look the real ones up at the first call.
// Built into a job, it is a program that opens the libraries itself (as ctypes and JAX do); built
// as a library, it is one that exports NCCL's names and fills them on demand. LATE_BOUND_DRIVER:
// what waits and orders goes to the driver, through cudaGetDriverEntryPoint and cuGetProcAddress.
// LATE_BOUND_PRIVATE: it goes there by pointers that no look-up gives, of which CUPTI alone tells
// (cupti_lookalike.cc).
#include "tests/e2e/jobs/late_bound.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"

namespace {

namespace ring = gordian::ring;

constexpr int kCopies = 2;
void* g_nccl[kCopies];
int g_copy = 0;
std::atomic<void*> g_found[kCopies][ring::kCallCount];

[[noreturn]] void Fail(const char* what, const char* why) {
  std::fprintf(stderr, "late_bound: %s: %s\n", what, why != nullptr ? why : "not found");
  std::_Exit(7);
}
void* Open(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Fail(name, dlerror());
  return handle;
}
void* Runtime() {
  static void* const handle = Open("libcudart.so.13");
  return handle;
}
// The runtime's symbols have a version, NCCL's have none.
void* Find(void* handle, const char* name) {
  void* found = handle == Runtime() ? dlvsym(handle, name, "libcudart.so.13") : dlsym(handle, name);
  if (found == nullptr) Fail(name, dlerror());
  return found;
}

#if defined(LATE_BOUND_DRIVER) || defined(LATE_BOUND_PRIVATE)
// The driver's function of the same types; null where the runtime's is called.
const char* DriverName(std::string_view name) {
  return name == "cudaStreamSynchronize"   ? "cuStreamSynchronize"
         : name == "cudaDeviceSynchronize" ? "cuCtxSynchronize"
         : name == "cudaEventRecord"       ? "cuEventRecord"
         : name == "cudaStreamWaitEvent"   ? "cuStreamWaitEvent"
                                           : nullptr;
}
#endif

#if defined(LATE_BOUND_PRIVATE)
void* FindInDriver(std::string_view name) {
  const char* driver = DriverName(name);
  if (driver == nullptr) return nullptr;
  const char* path = std::getenv("JOB_CUPTI");
  if (path == nullptr) Fail("JOB_CUPTI", "not set");
  using Find = void* (*)(const char*);
  const auto find = reinterpret_cast<Find>(dlsym(Open(path), "PrivateDriverFunction"));
  void* found = find != nullptr ? find(driver) : nullptr;
  if (found == nullptr) Fail(driver, nullptr);
  return found;
}
#elif defined(LATE_BOUND_DRIVER)
// The first by the runtime's look-up, the rest by the driver's own, which is looked up itself.
void* FindInDriver(std::string_view name) {
  const char* driver = DriverName(name);
  if (driver == nullptr) return nullptr;
  using ByRuntime = int (*)(const char*, void**, unsigned, unsigned long long, int*);
  const auto ask = reinterpret_cast<ByRuntime>(Find(Runtime(), "cudaGetDriverEntryPointByVersion"));
  void* found = nullptr;
  int status = 0;
  if (name != "cudaStreamSynchronize") {
    void* by_driver = nullptr;
    if (ask("cuGetProcAddress", &by_driver, 12000, 0, &status) != 0 || by_driver == nullptr) {
      Fail("cuGetProcAddress", nullptr);
    }
    using ByDriver = int (*)(const char*, void**, int, uint64_t, int*);
    if (reinterpret_cast<ByDriver>(by_driver)(driver, &found, 12000, 0, &status) != 0)
      found = nullptr;
  } else if (ask(driver, &found, 12000, 0, &status) != 0) {
    found = nullptr;
  }
  if (found == nullptr) Fail(driver, nullptr);
  return found;
}
#else
void* FindInDriver(std::string_view) { return nullptr; }
#endif

void* Row(uint16_t call) {
  const ring::CallInfo& info = ring::kCalls[call];
  const bool nccl = info.library == ring::Library::kNccl;
  const int copy = nccl ? g_copy : 0;
  void* found = g_found[copy][call].load();
  if (found != nullptr) return found;
  if (!nccl) found = FindInDriver(info.name);
  if (found == nullptr) {
    if (nccl && g_nccl[copy] == nullptr) g_nccl[copy] = Open("libnccl.so.2");
    found = Find(nccl ? g_nccl[copy] : Runtime(), info.name);
  }
  g_found[copy][call].store(found);
  return found;
}

}  // namespace

void LateBoundReopen() {
  if (g_nccl[g_copy] == nullptr || dlclose(g_nccl[g_copy]) != 0) Fail("dlclose", dlerror());
  if (dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY) != nullptr)
    Fail("libnccl.so.2", "still there");
  for (std::atomic<void*>& found : g_found[g_copy]) found.store(nullptr);
  g_nccl[g_copy] = nullptr;
}

void LateBoundUse(int copy) {
  g_copy = copy;
  if (copy != 0 && g_nccl[copy] == nullptr) {
    const char* path = std::getenv("JOB_SECOND_NCCL");
    if (path == nullptr) Fail("JOB_SECOND_NCCL", "not set");
    g_nccl[copy] = Open(path);
  }
}

#define DEFINE_nccl(name, result, parameters, arguments)                              \
  extern "C" result name parameters {                                                 \
    return reinterpret_cast<result(*) parameters>(Row(ring::kCall_##name)) arguments; \
  }
#define DEFINE_cudart DEFINE_nccl
#define DEFINE_cuda(name, result, parameters, arguments)
#define GORDIAN_HOOKS_WITHOUT_NEWER_NCCL
#define GORDIAN_HOOKS_WITHOUT_NCCL_2_31
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  DEFINE_##library(name, result, parameters, arguments)
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK

// What jobs call that is no row.
#define FORWARD(result, name, parameters, arguments)                \
  extern "C" result name parameters {                               \
    static void* const found = Find(Runtime(), #name);              \
    return reinterpret_cast<result(*) parameters>(found) arguments; \
  }
FORWARD(cudaError_t, cudaMalloc, (void** pointer, size_t bytes), (pointer, bytes))
FORWARD(cudaError_t, cudaMallocHost, (void** pointer, size_t bytes), (pointer, bytes))
FORWARD(const char*, cudaGetErrorString, (cudaError_t error), (error))
FORWARD(void**, __cudaRegisterFatBinary, (void* image), (image))
FORWARD(void, __cudaRegisterFatBinaryEnd, (void** handle), (handle))
FORWARD(void, __cudaRegisterFunction,
        (void** handle, const char* host, char* device, const char* name, int limit, void* tid,
         void* bid, void* block, void* grid, int* warp),
        (handle, host, device, name, limit, tid, bid, block, grid, warp))
