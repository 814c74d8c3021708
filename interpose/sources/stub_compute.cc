#include "interpose/sources/stub_compute.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/entry/real_symbols.h"

namespace gordian::interpose {

constinit std::atomic<uint32_t> g_stub_compute = 0;

namespace {

constexpr size_t kListBytes = 1024;  // cli/run/run.cc refuses longer ones
constexpr uint32_t kSlots = 4096;    // a power of two
constexpr uint32_t kMostProbes = 16;

struct Patterns {
  char text[kListBytes];  // each ended by a zero, the last by two
  bool too_long;
};
constinit Patterns g_keep = {};
constinit Patterns g_skip = {};

// Twice the handle plus the decision: functions may lie at odd addresses, and none uses the top
// bit. 0: free. Entries stay for ever.
constinit std::atomic<uintptr_t> g_decided[kSlots] = {};

void Read(const char* setting, Patterns* patterns) {
  const char* const list = getenv(setting);
  if (list == nullptr) return;
  const size_t length = strlen(list);
  patterns->too_long = length + 2 > kListBytes;
  if (patterns->too_long) return;
  memcpy(patterns->text, list, length);
  for (size_t i = 0; i < length; ++i) {
    if (patterns->text[i] == ':') patterns->text[i] = '\0';
  }
  patterns->text[length] = patterns->text[length + 1] = '\0';
}

bool Empty(const Patterns& patterns) { return patterns.text[0] == '\0'; }

bool Match(const Patterns& patterns, const char* name) {
  for (const char* pattern = patterns.text; *pattern != '\0'; pattern += strlen(pattern) + 1) {
    if (fnmatch(pattern, name, 0) == 0) return true;
  }
  return false;
}

bool Decide(const char* name) {
  if (name == nullptr || *name == '\0') return false;
  if (strstr(name, "nccl") != nullptr || strstr(name, "nvshmem") != nullptr) return false;
  if (Match(g_keep, name)) return false;
  return Empty(g_skip) || Match(g_skip, name);
}

// `ask` writes the kernel's name into its argument.
template <typename Ask>
bool Lookup(uintptr_t handle, const Ask& ask) {
  if (handle == 0) return false;
  const uint32_t first = static_cast<uint32_t>(handle * 0x9e3779b97f4a7c15u >> 40);
  std::atomic<uintptr_t>* free = nullptr;
  for (uint32_t i = 0; i < kMostProbes && free == nullptr; ++i) {
    std::atomic<uintptr_t>& slot = g_decided[(first + i) & (kSlots - 1)];
    const uintptr_t held = slot.load(std::memory_order_relaxed);
    if (held == 0) free = &slot;
    if (held >> 1 == handle) return (held & 1) != 0;
  }
  const int saved = errno;
  const char* name = nullptr;
  const bool stubbed = ask(&name) && Decide(name);
  errno = saved;
  // If another thread takes the slot first, or none is left, the next launch decides again.
  uintptr_t expected = 0;
  if (free != nullptr)
    free->compare_exchange_strong(expected, handle << 1 | (stubbed ? 1 : 0),
                                  std::memory_order_relaxed);
  return stubbed;
}

// A function of a library by name; null if the library is older.
template <typename Function>
Function* Find(Library library, const char* name) {
  return reinterpret_cast<Function*>(FindInLibrary(library, name));
}

}  // namespace

void ReadStubSettings() {
  const char* const on = getenv("GORDIAN_STUB_COMPUTE");
  if (on == nullptr || strcmp(on, "1") != 0) return;
  Read("GORDIAN_STUB_COMPUTE_KEEP", &g_keep);
  Read("GORDIAN_STUB_COMPUTE_SKIP", &g_skip);
  // A truncated list would skip kernels that the user wants to keep.
  g_stub_compute.store(g_keep.too_long || g_skip.too_long ? 0 : 1, std::memory_order_relaxed);
}

bool IsStubbed(const void* function) {
  return Lookup(reinterpret_cast<uintptr_t>(function), [&](const char** name) {
    auto* const get =
        Find<cudaError_t(const char**, const void*)>(Library::kRuntime, "cudaFuncGetName");
    return get != nullptr && get(name, function) == cudaSuccess;
  });
}

bool IsStubbed(CUfunction function) {
  return Lookup(reinterpret_cast<uintptr_t>(function), [&](const char** name) {
    auto* const get = Find<CUresult(const char**, CUfunction)>(Library::kDriver, "cuFuncGetName");
    return get != nullptr && get(name, function) == CUDA_SUCCESS;
  });
}

bool IsStubbed(cudaKernel_t kernel) {
  return Lookup(reinterpret_cast<uintptr_t>(kernel), [&](const char** name) {
    auto* const get = Find<CUresult(const char**, CUkernel)>(Library::kDriver, "cuKernelGetName");
    return get != nullptr && get(name, reinterpret_cast<CUkernel>(kernel)) == CUDA_SUCCESS;
  });
}

bool RecordsEvent(const cudaLaunchConfig_t* config) {
  for (unsigned i = 0; config != nullptr && i < config->numAttrs; ++i) {
    const cudaLaunchAttributeID id = config->attrs[i].id;
    if (id == cudaLaunchAttributeProgrammaticEvent ||
        id == cudaLaunchAttributeLaunchCompletionEvent)
      return true;
  }
  return false;
}

bool RecordsEvent(const CUlaunchConfig* config) {
  for (unsigned i = 0; config != nullptr && i < config->numAttrs; ++i) {
    const CUlaunchAttributeID id = config->attrs[i].id;
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
        id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      return true;
  }
  return false;
}

}  // namespace gordian::interpose
