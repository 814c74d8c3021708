// Stands before the functions of c10d::TCPStore and c10d::FileStore, so that waits for keys are seen
// that C++ makes: a group's first operation makes its communicator of NCCL, for which all members but
// one wait for a key that the one sets. Keys are whole here, with the prefixes of all PrefixStores.
// Not c10d::HashStore: only threads of the process itself set its keys.
//
// The loader binds PyTorch's tables of virtual functions to the first definitions that it finds. Of
// C++ the shim needs how arguments are passed, and that a std::string begins with its text's
// address and length (libstdc++'s since GCC 5; PyTorch's builds with the older one lack the symbols).
#include <stdint.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/torch/torch_api.h"
#include "interpose/torch/torch_entries.h"

namespace gordian::interpose {
namespace {

enum EntryId : uint32_t { kGet, kSet, kCompareSet, kAdd, kEntryCount };
enum StoreClass : uint32_t { kTcpStore, kFileStore, kStoreCount };
#define GORDIAN_STORE_GET(store) \
  _ZN4c10d##store##3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
#define GORDIAN_STORE_SET(store) \
  _ZN4c10d##store##3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEE
#define GORDIAN_STORE_COMPARE_SET(store) \
  _ZN4c10d##store##10compareSetERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIhSaIhEESD_
#define GORDIAN_STORE_ADD(store) \
  _ZN4c10d##store##3addERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl
#define GORDIAN_STORE_SYMBOLS(store)                                                      \
  {                                                                                       \
    GORDIAN_NAME_OF(GORDIAN_STORE_GET(store)), GORDIAN_NAME_OF(GORDIAN_STORE_SET(store)), \
        GORDIAN_NAME_OF(GORDIAN_STORE_COMPARE_SET(store)),                                \
        GORDIAN_NAME_OF(GORDIAN_STORE_ADD(store))                                         \
  }
constexpr const char* kSymbols[kStoreCount][kEntryCount] = {GORDIAN_STORE_SYMBOLS(8TCPStore),
                                                            GORDIAN_STORE_SYMBOLS(9FileStore)};

constinit std::atomic<void*> g_real[kStoreCount][kEntryCount] = {};
// All functions come through the shim: else a key could be set unseen, and a wait for it be none.
constinit std::atomic<bool> g_store_bound[kStoreCount] = {};

void* Real(StoreClass store, EntryId entry, const void* caller) {
  return RealBehind(&g_real[store][entry], kSymbols[store][entry], caller);
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
ThreadContext* Seen(StoreClass store) {
  if (!g_store_bound[store].load(std::memory_order_acquire) || TorchOfProcess() == nullptr) {
    return nullptr;
  }
  return AttachedThread();
}

using Bytes = Returned<3>;  // std::vector<uint8_t>; Nothing() is an empty one

// `asks`: the call changes nothing but that the key is set. PyTorch 1's new_group polls a counter so,
// and a thread that polls makes no progress.
void NoteSet(StoreClass store, const void* key, bool asks = false) {
  ThreadContext* const thread = Seen(store);
  if (thread == nullptr) return;
  const uint64_t hash = HashOf(*static_cast<const Text*>(key));
  if (asks && thread->asked_key == hash) return;
  thread->asked_key = asks ? hash : 0;
  gordian_torch_seen(ring::kTorchCall_store_wait, 0, 0, 0, hash, 0);
}

// Waits until the key is set. Only a call from Python is certain to be left again as seen from here
// (LeaveTorchCall), whatever is thrown.
using Get = Bytes (*)(void*, const void*);
Bytes ObservedGet(Get real, ThreadContext& thread, void* store, const Text& key) {
  const uint64_t hash = HashOf(key);
  gordian_torch_text(ring::kTorchCall_key, hash, key.data, key.bytes);
  gordian_torch_wait(ring::kTorchCall_store_wait, 0, 0, 0, hash, thread.torch.site);
  thread.torch.waits = ring::kTorchCall_store_wait;
  Bytes value = real(store, &key);
  if (StillAttached(thread)) {
    thread.torch.waits = ring::kCallNone;
    gordian_torch_waited(ring::kTorchCall_store_wait, 0);
  }
  return value;
}
Bytes StoreGet(StoreClass which, void* store, const void* key, const void* caller) {
  const auto real = reinterpret_cast<Get>(Real(which, kGet, caller));
  if (__builtin_expect(real == nullptr, 0)) return Bytes::Nothing();
  ThreadContext* const thread = Seen(which);
  if (thread == nullptr || thread->torch.depth == 0 || thread->torch.recorded ||
      thread->slot->call != ring::kCallNone) {
    return real(store, key);
  }
  return ObservedGet(real, *thread, store, *static_cast<const Text*>(key));
}

void StoreSet(StoreClass which, void* store, const void* key, const void* value,
              const void* caller) {
  const auto real =
      reinterpret_cast<void (*)(void*, const void*, const void*)>(Real(which, kSet, caller));
  NoteSet(which, key);
  if (real != nullptr) real(store, key, value);
}

Bytes StoreCompareSet(StoreClass which, void* store, const void* key, const void* expected,
                      const void* desired, const void* caller) {
  const auto real = reinterpret_cast<Bytes (*)(void*, const void*, const void*, const void*)>(
      Real(which, kCompareSet, caller));
  if (__builtin_expect(real == nullptr, 0)) return Bytes::Nothing();
  NoteSet(which, key);
  return real(store, key, expected, desired);
}

int64_t StoreAdd(StoreClass which, void* store, const void* key, int64_t value,
                 const void* caller) {
  const auto real =
      reinterpret_cast<int64_t (*)(void*, const void*, int64_t)>(Real(which, kAdd, caller));
  NoteSet(which, key, value == 0);
  return real != nullptr ? real(store, key, value) : 0;
}

}  // namespace
}  // namespace gordian::interpose

#define GORDIAN_STORE(which, name)                                                                \
  GORDIAN_ENTRY(gordian::interpose::Bytes, GORDIAN_STORE_GET(name), void* store,                  \
                const void* key) {                                                                \
    return gordian::interpose::StoreGet(gordian::interpose::which, store, key,                    \
                                        __builtin_return_address(0));                             \
  }                                                                                               \
  GORDIAN_ENTRY(void, GORDIAN_STORE_SET(name), void* store, const void* key, const void* value) { \
    gordian::interpose::StoreSet(gordian::interpose::which, store, key, value,                    \
                                 __builtin_return_address(0));                                    \
  }                                                                                               \
  GORDIAN_ENTRY(gordian::interpose::Bytes, GORDIAN_STORE_COMPARE_SET(name), void* store,          \
                const void* key, const void* expected, const void* desired) {                     \
    return gordian::interpose::StoreCompareSet(gordian::interpose::which, store, key, expected,   \
                                               desired, __builtin_return_address(0));             \
  }                                                                                               \
  GORDIAN_ENTRY(int64_t, GORDIAN_STORE_ADD(name), void* store, const void* key, int64_t value) {  \
    return gordian::interpose::StoreAdd(gordian::interpose::which, store, key, value,             \
                                        __builtin_return_address(0));                             \
  }
GORDIAN_STORE(kTcpStore, 8TCPStore)
GORDIAN_STORE(kFileStore, 9FileStore)

namespace {

struct StoreFunctions {
  const char* table;
  const void* entries[4];
};
#define GORDIAN_STORE_FUNCTIONS(name)                                              \
  {                                                                                \
    "_ZTVN4c10d" #name "E", {                                                      \
      (void*)&GORDIAN_STORE_GET(name), (void*)&GORDIAN_STORE_SET(name),            \
          (void*)&GORDIAN_STORE_COMPARE_SET(name), (void*)&GORDIAN_STORE_ADD(name) \
    }                                                                              \
  }

}  // namespace

// Has the calls recorded of those classes of stores whose calls come through the shim, all of them:
// the table of virtual functions of the PyTorch that `path` was linked to is bound to it. Returns how
// many classes these are.
GORDIAN_API uint32_t gordian_torch_store(const char* path) {
  using namespace gordian::interpose;
  const ErrnoKeeper keep_errno;
  const StoreFunctions stores[kStoreCount] = {GORDIAN_STORE_FUNCTIONS(8TCPStore),
                                              GORDIAN_STORE_FUNCTIONS(9FileStore)};
  uint32_t bound = 0;
  for (uint32_t store = 0; store < kStoreCount; ++store) {
    bool all = true;
    for (const void* entry : stores[store].entries) {
      all = all && IsInTable(path, stores[store].table, entry);
    }
    // A forked child must not look for them.
    for (uint32_t entry = 0; all && entry < kEntryCount; ++entry) {
      void* const real = FindInFile(path, kSymbols[store][entry]);
      all = real != nullptr;
      if (all) g_real[store][entry].store(real, std::memory_order_release);
    }
    g_store_bound[store].store(all, std::memory_order_release);
    bound += all;
  }
  return bound;
}
