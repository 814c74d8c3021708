// The library's remaining symbols. They let a program that links to them load, and report at the
// first call that they are not emulated. The C calling convention lets a function ignore its
// arguments.
#include <atomic>

#include "emulator/cuda/driver_logs.h"
#include "emulator/engine/status.h"

#define GORDIAN_EMU_NOT_EMULATED(name)                         \
  extern "C" int name##_is_not_emulated(void) __asm__(#name);  \
  extern "C" int name##_is_not_emulated(void) {                \
    static std::atomic<bool> said{false};                      \
    if (!said.exchange(true)) gordianEmuSayNotEmulated(#name); \
    return gordian::emu::kNotSupported;                        \
  }
#include "emulator/cuda/not_emulated.def"
#undef GORDIAN_EMU_NOT_EMULATED
