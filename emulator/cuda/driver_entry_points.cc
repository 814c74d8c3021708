// Driver functions by name: cuGetProcAddress, and libcudart's cudaGetDriverEntryPoint.
#include "emulator/cuda/driver_entry_points.h"

#include <cstring>

// Only addresses matter here, so this file does without cuda.h and its renamings.
#define GORDIAN_EMU_ENTRY(name, since, per_thread, symbol) extern "C" void symbol(void);
#include "emulator/cuda/entry_points.def"
#undef GORDIAN_EMU_ENTRY

namespace {

struct EntryPoint {
  const char* name;  // without version suffix
  int since;         // CUDA version in which this form of it appeared
  bool per_thread;
  void (*function)(void);
};

const EntryPoint kEntryPoints[] = {
#define GORDIAN_EMU_ENTRY(name, since, per_thread, symbol) {name, since, per_thread, &symbol},
#include "emulator/cuda/entry_points.def"
#undef GORDIAN_EMU_ENTRY
};

// CUdriverProcAddressQueryResult
constexpr int kFound = 0;
constexpr int kNotFound = 1;
constexpr int kVersionNotSufficient = 2;

const EntryPoint* Find(const char* name, int version, bool per_thread, int* status) {
  const EntryPoint* best = nullptr;
  for (const EntryPoint& entry : kEntryPoints) {
    if (entry.per_thread != per_thread || strcmp(entry.name, name) != 0) continue;
    if (entry.since > version) {
      if (best == nullptr) *status = kVersionNotSufficient;
    } else if (best == nullptr || entry.since > best->since) {
      best = &entry;
      *status = kFound;
    }
  }
  return best;
}

}  // namespace

extern "C" void* gordianEmuDriverEntryPoint(const char* name, int version, bool per_thread,
                                            int* status) {
  *status = kNotFound;
  const EntryPoint* found = per_thread ? Find(name, version, true, status) : nullptr;
  if (found == nullptr) found = Find(name, version, false, status);
  return found != nullptr ? reinterpret_cast<void*>(found->function) : nullptr;
}
