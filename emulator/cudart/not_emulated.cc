// The library's remaining symbols. They let a program that links to them load, and report at the
// first call that they are not emulated. The C calling convention lets a function ignore its
// arguments.
#include <atomic>

#include "emulator/cudart/runtime_common.h"

#define GORDIAN_EMU_NOT_EMULATED(name)                                \
  extern "C" cudaError_t name##_is_not_emulated(void) __asm__(#name); \
  extern "C" cudaError_t name##_is_not_emulated(void) {               \
    static std::atomic<bool> said{false};                             \
    if (said.exchange(true)) {                                        \
      return gordian::emu::Return(cudaErrorNotSupported);             \
    }                                                                 \
    return gordian::emu::NotEmulated(#name);                          \
  }
#include "emulator/cudart/not_emulated.def"
#undef GORDIAN_EMU_NOT_EMULATED
