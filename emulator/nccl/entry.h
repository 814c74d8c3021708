// What the exported functions have in common.
//
// Every function of nccl.h is a strong pncclX with a weak alias ncclX. Inside the library nothing
// calls ncclX, so a shim in front sees the application's calls only; the one exception is NCCL's
// own, ncclBcast, which goes through ncclBroadcast.
#ifndef GORDIAN_EMULATOR_NCCL_ENTRY_H_
#define GORDIAN_EMULATOR_NCCL_ENTRY_H_

#include "emulator/nccl/nccl_header.h"

#define EMU_NCCL_ALIAS(name) \
  extern "C" __typeof__(name) name __attribute__((weak, alias("p" #name), visibility("default")))

namespace gordian::emu::nccl {

// True while ncclBcast calls ncclBroadcast: that call is not the application's, and not counted.
extern thread_local bool inside_bcast;

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_ENTRY_H_
