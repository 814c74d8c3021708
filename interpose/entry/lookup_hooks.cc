#include "interpose/entry/lookup_hooks.h"

#include <dlfcn.h>
#include <errno.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/entry/loader.h"
#include "interpose/entry/real_symbols.h"

GORDIAN_BIND_FIRST_VERSION(dlopen);

namespace gordian::interpose {
namespace {

using ring::CallId;

// The newest CUDA whose forms of the driver's functions the table knows.
constexpr int kKnownCuda = 13000;

// Rows by name, sorted when compiled.
struct Index {
  CallId rows[ring::kCallCount - 1];
};
constexpr int Compare(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}
constexpr Index MakeIndex() {
  Index index = {};
  constexpr int kCount = ring::kCallCount - 1;
  for (int i = 0; i < kCount; ++i) index.rows[i] = static_cast<CallId>(i + 1);
  const auto less = [](CallId a, CallId b) {
    return Compare(ring::kCalls[a].name, ring::kCalls[b].name) < 0;
  };
  for (int gap = kCount / 2; gap > 0; gap /= 2) {
    for (int i = gap; i < kCount; ++i) {
      const CallId row = index.rows[i];
      int at = i;
      for (; at >= gap && less(row, index.rows[at - gap]); at -= gap) {
        index.rows[at] = index.rows[at - gap];
      }
      index.rows[at] = row;
    }
  }
  return index;
}
constexpr Index kIndex = MakeIndex();

CallId FindRow(const char* name) {
  if (!BeginsWith(name, "nccl") && !BeginsWith(name, "cu") && !BeginsWith(name, "__cuda")) {
    return ring::kCallNone;
  }
  int low = 0;
  int high = ring::kCallCount - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int order = Compare(ring::kCalls[kIndex.rows[middle]].name, name);
    if (order == 0) return kIndex.rows[middle];
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return ring::kCallNone;
}

// Which copies of the three libraries pointers were handed out for, by where they are loaded.
constinit std::atomic<uintptr_t> g_copies[3][kCopies] = {};

// The slot of the copy at `base`; kCopies when there are too many. No lock, because of fork.
uint32_t SlotOf(Library library, uintptr_t base) {
  std::atomic<uintptr_t>* copies = g_copies[static_cast<int>(library)];
  for (uint32_t i = 0; i < kCopies; ++i) {
    uintptr_t there = copies[i].load(std::memory_order_acquire);
    if (there == 0) copies[i].compare_exchange_strong(there, base);
    if (there == base || (there == 0 && copies[i].load() == base)) return i;
  }
  // Full: the place of one that was closed since.
  for (uint32_t i = 0; i < kCopies; ++i) {
    uintptr_t there = copies[i].load(std::memory_order_acquire);
    const Module module = ModuleOf(reinterpret_cast<void*>(there));
    if ((module.base != there || !IsLibrary(module, library)) &&
        copies[i].compare_exchange_strong(there, base)) {
      return i;
    }
  }
  return kCopies;
}

}  // namespace
}  // namespace gordian::interpose

// One thunk for each row and copy: it says which copy is meant, in a word of the thread's own, and
// goes on to the row's function, which finds the caller's return address as if it had been called
// itself.
#if defined(__x86_64__)
#define GORDIAN_THUNK_ALIGNMENT "5"
__asm__(
    ".macro GORDIAN_THUNKS target\n"
    ".set gordian_row, gordian_row + 1\n"
    ".irp slot, 1, 2, 3, 4, 5, 6, 7, 8\n"
    ".p2align 5\n"
    "endbr64\n"
    "movq gordian_bound@gottpoff(%rip), %r11\n"
    "movl $((\\slot << 16) | gordian_row), %fs:(%r11)\n"
    "jmp \\target\n"
    ".endr\n"
    ".endm\n");
#elif defined(__aarch64__)
#define GORDIAN_THUNK_ALIGNMENT "6"
// x16 and x17 are anyone's between a call and the function that it reaches; `hint 34` is `bti c`.
__asm__(
    ".macro GORDIAN_THUNKS target\n"
    ".set gordian_row, gordian_row + 1\n"
    ".irp slot, 1, 2, 3, 4, 5, 6, 7, 8\n"
    ".p2align 6\n"
    "hint 34\n"
    "adrp x16, :gottprel:gordian_bound\n"
    "ldr x16, [x16, :gottprel_lo12:gordian_bound]\n"
    "mrs x17, tpidr_el0\n"
    "add x17, x17, x16\n"
    "mov w16, #gordian_row\n"
    "movk w16, #\\slot, lsl #16\n"
    "str w16, [x17]\n"
    "b \\target\n"
    ".endr\n"
    ".endm\n");
#endif
__asm__(".text\n.p2align " GORDIAN_THUNK_ALIGNMENT
        "\n.hidden gordian_thunks\n.globl gordian_thunks\n"
        ".type gordian_thunks, @function\n.set gordian_row, 0\ngordian_thunks:\n.cfi_startproc\n"
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  "GORDIAN_THUNKS gordian_hook_" #name "\n"
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
        ".p2align " GORDIAN_THUNK_ALIGNMENT
        "\n.cfi_endproc\n.size gordian_thunks, .-gordian_thunks\n");
extern "C" __attribute__((visibility("hidden"))) const char gordian_thunks[];

namespace gordian::interpose {
namespace {

static_assert(kCopies == 8, "the thunks' macro counts to eight");
constexpr uint32_t kThunkBytes = 1u << (GORDIAN_THUNK_ALIGNMENT[0] - '0');

// What to hand out for `real`, a function of `module`.
void* Bind(CallId row, Library library, const Module& module, void* real) {
  const uint32_t slot = SlotOf(library, module.base);
  if (slot == kCopies) {
    // The call will go unseen: nothing about this process can be called complete any more.
    if (ThreadContext* thread = CurrentThread()) {
      Add(thread->header->lost_records, uint64_t{1});
    }
    return nullptr;
  }
  g_bound[slot][row].store(real, std::memory_order_release);
  return const_cast<char*>(gordian_thunks) + ((row - 1) * kCopies + slot) * kThunkBytes;
}

}  // namespace
}  // namespace gordian::interpose

// What the stubs below do next: return `result`, or, where that is null, go on to the real function
// as if it had been called itself, with this handle.
struct GordianLookup {
  void* result;
  void* handle;
};

extern "C" {

__attribute__((visibility("hidden"))) void* gordian_real_dlsym = nullptr;
__attribute__((visibility("hidden"))) void* gordian_real_dlvsym = nullptr;

// `version`: null for dlsym.
__attribute__((visibility("hidden"))) GordianLookup gordian_look_up(void* handle, const char* name,
                                                                    const char* version,
                                                                    const void* caller) {
  using namespace gordian::interpose;
  NoteHome();
  const LoaderFunctions& loader = Loader();
  std::atomic_ref(gordian_real_dlsym)
      .store(reinterpret_cast<void*>(loader.dlsym), std::memory_order_relaxed);
  std::atomic_ref(gordian_real_dlvsym)
      .store(reinterpret_cast<void*>(loader.dlvsym), std::memory_order_relaxed);
  const GordianLookup unchanged = {nullptr, handle};
  if (name == nullptr || loader.dlsym == nullptr) return unchanged;
  const CallId row = FindRow(name);
  if (row == gordian::ring::kCallNone) return unchanged;
  const ErrnoKeeper keep_errno;
  const Module asker = ModuleOf(caller);
  if (MeansTheRealThing(asker)) return unchanged;
  const bool by_scope = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
  void* found = nullptr;
  if (handle != RTLD_NEXT) {
    found = version != nullptr ? loader.dlvsym(handle, name, version) : loader.dlsym(handle, name);
    if (found == nullptr && !by_scope) return unchanged;
  }
  const Module owner = found != nullptr ? ModuleOf(found) : Module{};
  if (by_scope || IsShim(owner)) {
    // Ours comes before the libraries' own, so this finds it, or the program's. But a function that
    // no library has must not seem to be there: it is looked for where it is not, so that dlerror()
    // says so.
    if (handle != RTLD_NEXT && found != nullptr && !IsShim(owner)) return unchanged;
    if (FindInScope(row, caller) != nullptr) return unchanged;
    void* libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
    if (libc == nullptr) return unchanged;
    loader.dlclose(libc);  // it stays
    return {nullptr, libc};
  }
  const Library library = gordian::ring::kCalls[row].library;
  // Another module defines a function of that name (a trampoline). It looks up the library's
  // function in turn, and gets the shim's then.
  if (!IsLibrary(owner, library)) return unchanged;
  return {Bind(row, library, owner, found), handle};
}
}

// dlsym and dlvsym look at their return address: RTLD_NEXT is "after the caller". So nothing may
// stand between caller and real function; these leave the stack as they found it.
#if defined(__x86_64__)
#define GORDIAN_NO_VERSION "xorl %edx, %edx\n"
#define GORDIAN_STUB(name, clear_version)                                           \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name \
          ":\n.cfi_startproc\nendbr64\n"                                            \
          "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"                                  \
          "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"                                  \
          "pushq %rdx\n.cfi_adjust_cfa_offset 8\n"                                  \
          "movq 24(%rsp), %rcx\n" clear_version                                     \
          "call gordian_look_up\n"                                                  \
          "movq %rdx, %rdi\n"                                                       \
          "popq %rdx\n.cfi_adjust_cfa_offset -8\n"                                  \
          "popq %rsi\n.cfi_adjust_cfa_offset -8\n"                                  \
          "addq $8, %rsp\n.cfi_adjust_cfa_offset -8\n"                              \
          "testq %rax, %rax\njnz 1f\n"                                              \
          "jmp *gordian_real_" #name                                                \
          "(%rip)\n"                                                                \
          "1: ret\n.cfi_endproc\n.size " #name ", .-" #name "\n");
#elif defined(__aarch64__)
#define GORDIAN_NO_VERSION "mov x2, xzr\n"
#define GORDIAN_STUB(name, clear_version)                                           \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name \
          ":\n.cfi_startproc\nhint 34\n"                                            \
          "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n"                     \
          ".cfi_offset 29, -48\n.cfi_offset 30, -40\n"                              \
          "mov x29, sp\n"                                                           \
          "stp x0, x1, [sp, #16]\n"                                                 \
          "str x2, [sp, #32]\n" clear_version                                       \
          "mov x3, x30\n"                                                           \
          "bl gordian_look_up\n"                                                    \
          "mov x16, x0\n"                                                           \
          "mov x0, x1\n"                                                            \
          "ldp x1, x2, [sp, #24]\n"                                                 \
          "ldp x29, x30, [sp], #48\n.cfi_def_cfa_offset 0\n"                        \
          ".cfi_restore 29\n.cfi_restore 30\n"                                      \
          "cbnz x16, 1f\n"                                                          \
          "adrp x16, gordian_real_" #name                                           \
          "\n"                                                                      \
          "ldr x16, [x16, :lo12:gordian_real_" #name                                \
          "]\n"                                                                     \
          "br x16\n"                                                                \
          "1: mov x0, x16\nret\n.cfi_endproc\n.size " #name ", .-" #name "\n");
#endif
GORDIAN_STUB(dlsym, GORDIAN_NO_VERSION)
GORDIAN_STUB(dlvsym, "")

// After it an address may belong to another file: routes are looked up anew.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  using namespace gordian::interpose;
  const LoaderFunctions& loader = Loader();
  if (loader.dlclose == nullptr) return -1;
  const int result = loader.dlclose(handle);
  g_closings.fetch_add(1, std::memory_order_acq_rel);
  return result;
}

namespace gordian::interpose {
namespace {

// What is left of a row's name behind the name that was asked for; null when it does not begin so.
const char* Behind(const char* row, const char* asked) {
  while (*asked != '\0' && *asked == *row) ++asked, ++row;
  return *asked == '\0' ? row : nullptr;
}
bool IsForm(const char* suffix) {
  if (suffix[0] == '_' && suffix[1] == 'v' && suffix[2] >= '2' && suffix[2] <= '9') suffix += 3;
  return *suffix == '\0' || SameText(suffix, "_ptsz") || SameText(suffix, "_ptds");
}

// The row of a function that a look-up gave. The driver's own symbols decide; where it gives
// functions that are no symbols, the form follows from what was asked, as the headers define it.
CallId RowOf(const DriverLookup& lookup, void* function, const Module& driver, bool per_thread) {
  CallId best = ring::kCallNone;
  uint32_t best_version = 0;
  bool best_per_thread = false;
  for (uint16_t row = 1; row < ring::kCallCount; ++row) {
    const auto call = static_cast<CallId>(row);
    const ring::CallInfo& info = ring::kCalls[row];
    if (info.library != Library::kDriver) continue;
    const char* suffix = Behind(info.name, lookup.symbol);
    if (suffix == nullptr || !IsForm(suffix)) continue;
    if (FindBeside(reinterpret_cast<const void*>(driver.base), info.name) == function) return call;
    const uint32_t version = ring::IntroducedIn(row);
    const bool own_stream = *suffix != '\0' && info.Has(ring::kPerThread);
    if (version == 0 || static_cast<int>(version) > lookup.version || (own_stream && !per_thread)) {
      continue;
    }
    if (best == ring::kCallNone || (own_stream && !best_per_thread) ||
        (own_stream == best_per_thread && version > best_version)) {
      best = call;
      best_version = version;
      best_per_thread = own_stream;
    }
  }
  // A newer CUDA may have a form that the table does not know: then none, rather than a wrong one.
  return lookup.version <= kKnownCuda ? best : ring::kCallNone;
}

}  // namespace

void SubstituteDriverFunction(CallId call, const void* real, const void* caller,
                              const DriverLookup& lookup) {
  if (lookup.symbol == nullptr || lookup.function == nullptr || *lookup.function == nullptr) return;
  if (!BeginsWith(lookup.symbol, "cu")) return;
  const ErrnoKeeper keep_errno;
  if (MeansTheRealThing(ModuleOf(caller))) return;
  const Module owner = ModuleOf(*lookup.function);
  if (!IsLibrary(owner, Library::kDriver)) return;
  DriverLookup asked = lookup;
  if (asked.version == 0) {
    const auto get =
        reinterpret_cast<cudaError_t (*)(int*)>(FindBeside(real, "cudaRuntimeGetVersion"));
    if (get == nullptr || get(&asked.version) != cudaSuccess) return;
  }
  // 1: legacy, 2: per thread, 0: as the asking function's own form.
  const bool own_form = ring::kCalls[call].Has(ring::kPerThread);
  const bool per_thread = asked.flags == 2 || (asked.flags == 0 && own_form);
  const CallId row = RowOf(asked, *lookup.function, owner, per_thread);
  if (row == ring::kCallNone) return;
  if (void* ours = Bind(row, Library::kDriver, owner, *lookup.function)) *lookup.function = ours;
}

}  // namespace gordian::interpose
