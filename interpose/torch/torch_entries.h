// What the files share that stand before functions of PyTorch's C++.
#ifndef GORDIAN_INTERPOSE_TORCH_TORCH_ENTRIES_H_
#define GORDIAN_INTERPOSE_TORCH_TORCH_ENTRIES_H_

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/state/ring_client.h"
#include "interpose/torch/torch_groups.h"

// Defines a function that the loader binds others' calls to.
#define GORDIAN_ENTRY(result, name, ...)                                      \
  extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__); \
  extern "C" result name(__VA_ARGS__)

// A symbol's name as text.
#define GORDIAN_TEXT_OF(symbol) #symbol
#define GORDIAN_NAME_OF(symbol) GORDIAN_TEXT_OF(symbol)

namespace gordian::interpose {

// What a function of PyTorch's returns whose type has a destructor (an intrusive_ptr, a std::vector):
// so many words in memory of the caller's, whose address each processor's calling convention passes in
// a way of its own (Itanium C++ ABI, 3.1.3). It cannot be moved: the program links only where the
// compiler lets a function that returns one write into the caller's.
template <int kWords>
struct Returned {
  Returned() {}
  Returned(Returned&&);
  ~Returned() {}
  static Returned Nothing() {
    Returned nothing;
    for (void*& word : nothing.words) word = nullptr;
    return nothing;
  }

  void* words[kWords];
};

// The function that ours stands before, kept in `*kept`; null: there is none. `caller`: is in a file
// that is linked to it.
inline void* RealBehind(std::atomic<void*>* kept, const char* symbol, const void* caller) {
  void* real = kept->load(std::memory_order_acquire);
  if (__builtin_expect(real != nullptr, 1)) return real;
  const ErrnoKeeper keep_errno;
  real = FindBehind(caller, symbol);
  kept->store(real, std::memory_order_release);
  return real;
}

// The calling thread, if it is attached already.
inline ThreadContext* AttachedThread() {
  const ForkPage* const page = g_fork_page.load(std::memory_order_relaxed);
  return t_local.epoch == page->epoch.load(std::memory_order_acquire) ? t_local.context : nullptr;
}

// The state of a process in which the front end runs; nothing is attached for it.
inline TorchState* TorchOfProcess() {
  const ForkPage* const page = g_fork_page.load(std::memory_order_relaxed);
  if (page->epoch.load(std::memory_order_acquire) == 0) return nullptr;
  Process* const process = page->process.load(std::memory_order_relaxed);
  return process != nullptr ? TorchStateOf(*process, false) : nullptr;
}

// Whether the class's table of virtual functions, in the file or one that it was linked to, has the
// function. `table`: its symbol.
inline bool IsInTable(const char* path, const char* table, const void* function) {
  const auto* const entries = static_cast<void* const*>(FindInFile(path, table));
  constexpr size_t kMost = 64;
  for (size_t i = 0; entries != nullptr && i < kMost; ++i) {
    if (entries[i] == function) return true;
  }
  return false;
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_TORCH_TORCH_ENTRIES_H_
