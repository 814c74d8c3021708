// The dynamic loader's own functions, behind the ones that the shim exports under their names, and
// the question which loaded file an address belongs to.
//
// Thread-safe. Nothing here allocates by itself; the loader's functions may.
#ifndef GORDIAN_INTERPOSE_ENTRY_LOADER_H_
#define GORDIAN_INTERPOSE_ENTRY_LOADER_H_

#include <stdint.h>

#include "interpose/entry/real_symbols.h"

namespace gordian::interpose {

// The next definitions after ours, normally libc's. Null only if libc could not be read.
struct LoaderFunctions {
  void* (*dlsym)(void*, const char*);
  void* (*dlvsym)(void*, const char*, const char*);
  int (*dlclose)(void*);
};
const LoaderFunctions& Loader();

struct Module {
  uintptr_t low = 0;  // its code lies in [low, high)
  uintptr_t high = 0;
  uintptr_t base = 0;
  bool main_program = false;
  char path[512];   // as the loader knows it
  char soname[64];  // cut; empty when it has none
  bool found() const { return high != 0; }
};
// Takes the loader's lock for a moment. Not found: code made at run time, or a file closed since.
Module ModuleOf(const void* address);

// Whether this process is a forked child whose only thread is the caller. A thread of the parent
// that held the loader's lock at the fork can never release it in the child, and no other thread of
// the child loads or unloads files. NoteHome() is called in the process that may fork.
void NoteHome();
bool IsAloneAfterFork();

// For such a child: finds a function of a loaded file with one of these file names (a list that
// ends with a null pointer), by the loader's list and without its lock. Of several files it takes
// the one that holds the address `beside`, which may be null. Returns null if there is none, if it
// is not clear which one is meant, or if a file loaded before them defines such a function too.
void* FindWithoutLock(const char* const* file_names, const char* name, const void* beside);

bool IsShim(const Module& module);
// libnccl, libcudart, libcuda: by soname or by file name, whatever the version.
bool IsLibrary(const Module& module, Library library);
// Whether the shim leaves a module's look-ups unchanged: NVIDIA's own libraries and the shim.
bool MeansTheRealThing(const Module& module);

bool SameText(const char* a, const char* b);
bool BeginsWith(const char* text, const char* prefix);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_LOADER_H_
