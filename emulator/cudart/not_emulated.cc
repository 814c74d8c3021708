// The rest of the library's symbols: they exist, so that a program that is linked to them loads,
// and say that they are not emulated when one is called. In the C calling convention a function may
// ignore whatever arguments it was given.
#include "emulator/cudart/runtime_common.h"

#define GORDIAN_EMU_NOT_EMULATED(name)                                \
  extern "C" cudaError_t name##_is_not_emulated(void) __asm__(#name); \
  extern "C" cudaError_t name##_is_not_emulated(void) { return gordian::emu::NotEmulated(#name); }
#include "emulator/cudart/not_emulated.def"
#undef GORDIAN_EMU_NOT_EMULATED
