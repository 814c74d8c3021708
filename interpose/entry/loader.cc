#include "interpose/entry/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/entry/glibc_floor.h"

namespace gordian::interpose {
namespace {

constinit LoaderFunctions g_loader = {};
constinit std::atomic<uint32_t> g_loader_known = 0;

struct Dynamic {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const char* soname = nullptr;
};
Dynamic ReadDynamic(uintptr_t base, const ElfW(Dyn) * entry) {
  Dynamic out;
  uint64_t soname = UINT64_MAX;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // glibc has made addresses of them, except where it could not write (the kernel's vdso).
    const uintptr_t address = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) {
      soname = entry->d_un.d_val;
    } else if (address < base) {
      continue;
    } else if (entry->d_tag == DT_STRTAB) {
      out.strings = reinterpret_cast<const char*>(address);
    } else if (entry->d_tag == DT_SYMTAB) {
      out.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    } else if (entry->d_tag == DT_GNU_HASH) {
      out.gnu_hash = reinterpret_cast<const uint32_t*>(address);
    }
  }
  if (out.strings != nullptr && soname != UINT64_MAX) out.soname = out.strings + soname;
  return out;
}

// A function that the file defines, by its GNU hash table.
void* FindDefined(uintptr_t base, const Dynamic& dynamic, const char* name) {
  if (dynamic.gnu_hash == nullptr || dynamic.symbols == nullptr || dynamic.strings == nullptr) {
    return nullptr;
  }
  uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) {
    hash = hash * 33 + static_cast<unsigned char>(*at);
  }
  const uint32_t buckets = dynamic.gnu_hash[0];
  const uint32_t first = dynamic.gnu_hash[1];
  const uint32_t bloom_words = dynamic.gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* bucket = dynamic.gnu_hash + 4 + bloom_words;
  const uint32_t* chain = bucket + buckets;
  if (buckets == 0) return nullptr;
  uint32_t at = bucket[hash % buckets];
  if (at < first) return nullptr;
  for (;; ++at) {
    const uint32_t link = chain[at - first];
    const ElfW(Sym)& symbol = dynamic.symbols[at];
    if ((link | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        (symbol.st_info & 15) == STT_FUNC && SameText(dynamic.strings + symbol.st_name, name)) {
      return reinterpret_cast<void*>(base + symbol.st_value);
    }
    if ((link & 1) != 0) return nullptr;
  }
}

// In libc.so.6, or libdl.so.2 where these functions still live there. By the loader's list and
// without calling anything: this runs at the first dlsym of a process, and that may be a
// sanitizer's, which is about to find out where the functions are that it stands in front of
// (dl_iterate_phdr, too).
LoaderFunctions LookInLibc() {
  LoaderFunctions found = {};
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    const Dynamic dynamic = ReadDynamic(map->l_addr, map->l_ld);
    if (dynamic.soname == nullptr ||
        (!BeginsWith(dynamic.soname, "libc.so.") && !BeginsWith(dynamic.soname, "libdl.so."))) {
      continue;
    }
    const auto take = [&](auto& function, const char* name) {
      using Pointer = std::remove_reference_t<decltype(function)>;
      if (function == nullptr) {
        function = reinterpret_cast<Pointer>(FindDefined(map->l_addr, dynamic, name));
      }
    };
    take(found.dlsym, "dlsym");
    take(found.dlvsym, "dlvsym");
    take(found.dlclose, "dlclose");
    if (found.dlsym != nullptr && found.dlvsym != nullptr && found.dlclose != nullptr) break;
  }
  return found;
}

struct Search {
  uintptr_t address;
  Module* module;
  bool first = true;
};
template <size_t kSize>
void Copy(char (&to)[kSize], const char* from) {
  size_t i = 0;
  for (; from != nullptr && from[i] != '\0' && i + 1 < kSize; ++i) to[i] = from[i];
  to[i] = '\0';
}
int LookForAddress(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  const bool first = search.first;
  search.first = false;
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  const ElfW(Dyn)* entries = nullptr;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC) {
      entries = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + header.p_vaddr);
    }
    if (header.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const uintptr_t end = begin + header.p_memsz;
    inside |= search.address >= begin && search.address < end;
    if (begin < low) low = begin;
    if (end > high) high = end;
  }
  if (!inside) return 0;
  Module& module = *search.module;
  module.low = low;
  module.high = high;
  module.base = low;
  module.main_program = first;
  Copy(module.path, info->dlpi_name);
  Copy(module.soname, ReadDynamic(info->dlpi_addr, entries).soname);
  return 1;
}

const char* FileName(const char* path) {
  const char* name = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/') name = path + 1;
  }
  return name;
}
std::atomic<pid_t> g_home = 0;

// A file that was being opened or closed when the process was forked is in the list half made, or
// gone already.
bool IsWhole(const link_map& map) {
  const auto entries = reinterpret_cast<uintptr_t>(map.l_ld);
  if (map.l_name == nullptr || map.l_addr == 0 || entries < map.l_addr) return false;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(entries & ~(page - 1)), 1, &resident) == 0;
}

bool IsNamed(const Module& module, const char* prefix) {
  return BeginsWith(module.soname, prefix) || BeginsWith(FileName(module.path), prefix);
}

}  // namespace

bool SameText(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

bool BeginsWith(const char* text, const char* prefix) {
  while (*prefix != '\0' && *text == *prefix) ++text, ++prefix;
  return *prefix == '\0';
}

const LoaderFunctions& Loader() {
  if (__builtin_expect(g_loader_known.load(std::memory_order_acquire) != 0, 1)) return g_loader;
  LoaderFunctions found = LookInLibc();
  if (found.dlvsym != nullptr) {
    // What comes after the shim: another tool's, if there is one, which goes on to libc's.
    const auto next = [&](auto& function, const char* name) {
      using Pointer = std::remove_reference_t<decltype(function)>;
      void* after = found.dlvsym(RTLD_NEXT, name, GORDIAN_FIRST_VERSION);
      if (after != nullptr) function = reinterpret_cast<Pointer>(after);
    };
    next(found.dlsym, "dlsym");
    next(found.dlclose, "dlclose");
  }
  // Threads that come here at the same time store the same values.
  std::atomic_ref(g_loader.dlsym).store(found.dlsym, std::memory_order_relaxed);
  std::atomic_ref(g_loader.dlvsym).store(found.dlvsym, std::memory_order_relaxed);
  std::atomic_ref(g_loader.dlclose).store(found.dlclose, std::memory_order_relaxed);
  g_loader_known.store(1, std::memory_order_release);
  return g_loader;
}

void NoteHome() {
  pid_t none = 0;
  if (g_home.load(std::memory_order_relaxed) == 0) g_home.compare_exchange_strong(none, getpid());
}

bool IsAloneAfterFork() {
  const pid_t home = g_home.load(std::memory_order_relaxed);
  if (home == 0 || home == getpid()) return false;
  // A link for each thread, and two more. By its number: stat() is as new as glibc 2.33.
  struct statx tasks;
  return syscall(SYS_statx, AT_FDCWD, "/proc/self/task", 0, STATX_NLINK, &tasks) == 0 &&
         tasks.stx_nlink == 3;
}

void* FindWithoutLock(const char* const* file_names, const char* name, const void* beside) {
  const auto address = reinterpret_cast<uintptr_t>(beside);
  const link_map* found = nullptr;
  bool several = false;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    if (!IsWhole(*map)) continue;
    bool named = false;
    for (const char* const* file = file_names; *file != nullptr; ++file) {
      named = named || BeginsWith(FileName(map->l_name), *file);
    }
    // Another module before the library defines the name too, as the shim does. Only the loader
    // knows which of them comes first in a lookup.
    if (!named && found == nullptr && map->l_ld != _DYNAMIC &&
        FindDefined(map->l_addr, ReadDynamic(map->l_addr, map->l_ld), name) != nullptr) {
      return nullptr;
    }
    if (!named || (beside != nullptr && map->l_addr > address)) continue;
    several = several || found != nullptr;
    if (found == nullptr || (beside != nullptr && map->l_addr > found->l_addr)) found = map;
  }
  if (found == nullptr || (several && beside == nullptr)) return nullptr;
  return FindDefined(found->l_addr, ReadDynamic(found->l_addr, found->l_ld), name);
}

Module ModuleOf(const void* address) {
  Module module;
  module.path[0] = module.soname[0] = '\0';
  Search search = {reinterpret_cast<uintptr_t>(address), &module};
  dl_iterate_phdr(LookForAddress, &search);
  return module;
}

bool IsShim(const Module& module) {
  const auto here = reinterpret_cast<uintptr_t>(&g_loader);
  return here >= module.low && here < module.high;
}

bool IsLibrary(const Module& module, Library library) {
  switch (library) {
    case Library::kNccl:
      return IsNamed(module, "libnccl.so");
    case Library::kRuntime:
      return IsNamed(module, "libcudart.so");
    case Library::kDriver:
      return IsNamed(module, "libcuda.so");
    case Library::kTorch:
    case Library::kNone:
      break;
  }
  return false;
}

bool MeansTheRealThing(const Module& module) {
  return IsLibrary(module, Library::kNccl) || IsLibrary(module, Library::kRuntime) ||
         IsLibrary(module, Library::kDriver) || IsNamed(module, "libcupti.so") || IsShim(module);
}

}  // namespace gordian::interpose
