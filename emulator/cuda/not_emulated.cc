// The rest of the library's symbols: they exist, so that a program that is linked to them loads,
// and say that they are not emulated when one is first called. In the C calling convention a
// function may ignore whatever arguments it was given.
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
