// Stands before the functions of c10d::TCPStore, so that waits for keys are seen that C++ makes: a
// group's first operation makes its communicator of NCCL, for which all members but one wait for a
// key that the one sets. Keys are whole here, with the prefixes of all PrefixStores.
//
// The loader binds PyTorch's table of virtual functions to the first definition that it finds. Of
// C++ the shim needs how x86-64 passes arguments, and that a std::string begins with its text's
// address and length (libstdc++'s since GCC 5; PyTorch's builds with the older one lack the symbols).
#if defined(__x86_64__)
#include <stdint.h>
#include <string.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/torch/torch_api.h"
#include "interpose/torch/torch_entries.h"

namespace gordian::interpose {
namespace {

enum EntryId : uint32_t { kGet, kSet, kCompareSet, kAdd, kEntryCount };
#define GORDIAN_STORE_GET \
  _ZN4c10d8TCPStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
#define GORDIAN_STORE_SET \
  _ZN4c10d8TCPStore3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE
#define GORDIAN_STORE_COMPARE_SET \
  _ZN4c10d8TCPStore10compareSetERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEESD_
#define GORDIAN_STORE_ADD \
  _ZN4c10d8TCPStore3addERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl
constexpr const char* kSymbols[kEntryCount] = {
    GORDIAN_NAME_OF(GORDIAN_STORE_GET), GORDIAN_NAME_OF(GORDIAN_STORE_SET),
    GORDIAN_NAME_OF(GORDIAN_STORE_COMPARE_SET), GORDIAN_NAME_OF(GORDIAN_STORE_ADD)};

constinit std::atomic<void*> g_real[kEntryCount] = {};
// All functions come through the shim: else a key could be set unseen, and a wait for it be none.
constinit std::atomic<bool> g_store_bound = false;

void* Real(uint32_t entry, const void* caller) {
  return RealBehind(&g_real[entry], kSymbols[entry], caller);
}

// A std::string.
struct Text {
  const char* data;
  uint64_t bytes;
};

// FNV-1a (Fowler, Noll, Vo), the same in every process. The keys that the front end hashes itself,
// by another function, are without prefixes and so others.
uint64_t HashOf(const Text& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < key.bytes; ++i) {
    hash = (hash ^ static_cast<uint8_t>(key.data[i])) * 0x100000001b3;
  }
  return hash | 1;
}

// The thread, in a process whose keys are seen.
ThreadContext* Seen() {
  if (!g_store_bound.load(std::memory_order_acquire) || TorchOfProcess() == nullptr) return nullptr;
  return AttachedThread();
}

// An empty std::vector.
void* NoValue(void* result) { return memset(result, 0, 3 * sizeof(void*)); }

void NoteSet(const void* key) {
  if (Seen() == nullptr) return;
  gordian_torch_seen(ring::kTorchCall_store_wait, 0, 0, 0, HashOf(*static_cast<const Text*>(key)),
                     0);
}

}  // namespace
}  // namespace gordian::interpose

// Waits until the key is set. Only a call from Python is certain to be left again as seen from here
// (LeaveTorchCall), whatever is thrown.
GORDIAN_ENTRY(void*, GORDIAN_STORE_GET, void* result, void* store, const void* key) {
  using namespace gordian;
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<void* (*)(void*, void*, const void*)>(
      Real(kGet, __builtin_return_address(0)));
  if (__builtin_expect(real == nullptr, 0)) return NoValue(result);
  ThreadContext* const thread = Seen();
  if (thread == nullptr || thread->torch.depth == 0 || thread->torch.recorded ||
      thread->slot->call != ring::kCallNone) {
    return real(result, store, key);
  }
  const Text& text = *static_cast<const Text*>(key);
  const uint64_t hash = HashOf(text);
  gordian_torch_text(ring::kTorchCall_key, hash, text.data, text.bytes);
  gordian_torch_wait(ring::kTorchCall_store_wait, 0, 0, 0, hash, thread->torch.site);
  thread->torch.waits = ring::kTorchCall_store_wait;
  void* const returned = real(result, store, key);
  if (!StillAttached(*thread)) return returned;
  thread->torch.waits = ring::kCallNone;
  gordian_torch_waited(ring::kTorchCall_store_wait, 0);
  return returned;
}
GORDIAN_ENTRY(void, GORDIAN_STORE_SET, void* store, const void* key, const void* value) {
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<void (*)(void*, const void*, const void*)>(
      Real(kSet, __builtin_return_address(0)));
  NoteSet(key);
  if (real != nullptr) real(store, key, value);
}
GORDIAN_ENTRY(void*, GORDIAN_STORE_COMPARE_SET, void* result, void* store, const void* key,
              const void* expected, const void* desired) {
  using namespace gordian::interpose;
  const auto real =
      reinterpret_cast<void* (*)(void*, void*, const void*, const void*, const void*)>(
          Real(kCompareSet, __builtin_return_address(0)));
  if (__builtin_expect(real == nullptr, 0)) return NoValue(result);
  NoteSet(key);
  return real(result, store, key, expected, desired);
}
GORDIAN_ENTRY(int64_t, GORDIAN_STORE_ADD, void* store, const void* key, int64_t value) {
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<int64_t (*)(void*, const void*, int64_t)>(
      Real(kAdd, __builtin_return_address(0)));
  NoteSet(key);
  return real != nullptr ? real(store, key, value) : 0;
}

// Has the calls recorded that come through the shim, and says whether they do, all of them: the
// table of virtual functions of the PyTorch that `path` was linked to is bound to it.
GORDIAN_API uint32_t gordian_torch_store(const char* path) {
  using namespace gordian::interpose;
  const ErrnoKeeper keep_errno;
  constexpr char kTable[] = "_ZTVN4c10d8TCPStoreE";
  const void* const functions[] = {(void*)&GORDIAN_STORE_GET, (void*)&GORDIAN_STORE_SET,
                                   (void*)&GORDIAN_STORE_COMPARE_SET, (void*)&GORDIAN_STORE_ADD};
  for (const void* function : functions) {
    if (!IsInTable(path, kTable, function)) return 0;
  }
  // A forked child must not look for them.
  for (uint32_t entry = 0; entry < kEntryCount; ++entry) {
    void* const real = FindInFile(path, kSymbols[entry]);
    if (real == nullptr) return 0;
    g_real[entry].store(real, std::memory_order_release);
  }
  g_store_bound.store(true, std::memory_order_release);
  return 1;
}
#else
#include "interpose/torch/torch_api.h"
GORDIAN_API uint32_t gordian_torch_store(const char*) { return 0; }
#endif
