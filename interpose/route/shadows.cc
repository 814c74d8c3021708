#include "interpose/route/shadows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <type_traits>

#include "interpose/route/relaxed_capture.h"
#include "interpose/route/routed_comm.h"
#include "interpose/route/shadow_pool.h"
#include "interpose/state/shim_state.h"

namespace gordian::interpose {
namespace {

constexpr int kMostDevices = 16;
constexpr uint64_t kMebibyte = 1 << 20;
constexpr uint64_t kDefaultMebibytes = 256, kMostMebibytes = 1 << 20;
constexpr uint32_t kSweptByEach = 2, kSweptForRoom = 64;
constexpr int kAnyDirection = 4;  // cudaMemcpyDefault

struct Pool {
  TryLock lock;
  std::atomic<uint32_t> begun;  // 1: a thread makes it, or has
  std::atomic<char*> memory;    // null: there is none
  ShadowPool ranges;
};
constinit Pool g_pools[kMostDevices] = {};
constinit uint64_t g_pool_bytes = 0;
using Over = bool (*)(uint64_t holder);
constinit Over g_over = nullptr;

struct CopyFunctions {
  int (*malloc)(void**, size_t);
  int (*memcpy_async)(void*, const void*, size_t, int, void*);
  int (*get_last_error)();
};
constinit CopyFunctions g_copy = {};

Pool* PoolOf(int device) {
  return device >= 0 && device < kMostDevices ? &g_pools[device] : nullptr;
}

uint64_t WantedBytes() {
  const char* const text = getenv("GORDIAN_RECOVERY_POOL_MB");
  if (text == nullptr || *text == '\0') return kDefaultMebibytes * kMebibyte;
  const int saved = errno;
  char* end = nullptr;
  const unsigned long long wanted = strtoull(text, &end, 10);
  errno = saved;
  if (*text >= '0' && *text <= '9' && *end == '\0' && wanted <= kMostMebibytes) {
    return wanted * kMebibyte;
  }
  Say("GORDIAN_RECOVERY_POOL_MB is not a number of MiB up to 1048576, so it is 256", text);
  return kDefaultMebibytes * kMebibyte;
}

}  // namespace

bool OpenShadows(bool (*over)(uint64_t holder)) {
  const auto find = [](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(
        FindInLibrary(Library::kRuntime, name));
    return *function != nullptr;
  };
  g_over = over;
  g_pool_bytes = WantedBytes();
  return find(&g_copy.malloc, "cudaMalloc") & find(&g_copy.memcpy_async, "cudaMemcpyAsync") &
         find(&g_copy.get_last_error, "cudaGetLastError");
}

void MakeShadowPool(int device) {
  Pool* const pool = PoolOf(device);
  if (pool == nullptr || g_pool_bytes == 0 || pool->begun.exchange(1) != 0) return;
  const RelaxedCapture relaxed;
  int before = 0;
  const bool other = g_cuda.get_device(&before) == 0 && before != device;
  if (other) g_cuda.set_device(device);
  void* memory = nullptr;
  if (g_copy.malloc(&memory, g_pool_bytes) == 0) {
    pool->ranges.Reset(g_pool_bytes);
    pool->memory.store(static_cast<char*>(memory), std::memory_order_release);
  } else {
    g_copy.get_last_error();  // the program must not find it
    char why[96];
    snprintf(why, sizeof why, "device %d has no %llu MiB for GORDIAN_RECOVERY_POOL_MB", device,
             static_cast<unsigned long long>(g_pool_bytes / kMebibyte));
    Say("operations in place cannot be recovered", why);
  }
  if (other) g_cuda.set_device(before);
}

Shadow MakeShadow(int device, const void* from, uint64_t bytes, void* stream) {
  Pool* const pool = PoolOf(device);
  char* const memory = pool == nullptr ? nullptr : pool->memory.load(std::memory_order_acquire);
  if (memory == nullptr || !pool->lock.Acquire()) return {};
  const RelaxedCapture relaxed;
  pool->ranges.Sweep(kSweptByEach, g_over);
  uint64_t at = 0;
  bool taken = pool->ranges.Take(bytes, &at);
  if (!taken) {
    pool->ranges.Sweep(kSweptForRoom, g_over);
    taken = pool->ranges.Take(bytes, &at);
  }
  pool->lock.Release();
  if (!taken) return {};
  if (g_copy.memcpy_async(memory + at, from, bytes, kAnyDirection, stream) != 0) {
    g_copy.get_last_error();
    return {};
  }
  return {memory + at, at};
}

void HoldShadow(int device, const Shadow& shadow, uint64_t holder) {
  Pool* const pool = PoolOf(device);
  if (shadow.memory == nullptr || pool == nullptr) return;
  if (!pool->lock.Acquire()) return;
  pool->ranges.Hold(shadow.at, holder);
  pool->lock.Release();
}

}  // namespace gordian::interpose
