// What the exported functions share.
//
// Every function of nccl.h is a strong pncclX with a weak alias ncclX. The library itself never
// calls ncclX, so a shim in front sees only the application's calls; the one exception is NCCL's
// own: ncclBcast calls ncclBroadcast.
#ifndef GORDIAN_EMULATOR_NCCL_API_ENTRY_H_
#define GORDIAN_EMULATOR_NCCL_API_ENTRY_H_

#include "emulator/nccl/api/nccl_header.h"

#define EMU_NCCL_ALIAS(name) \
  extern "C" __typeof__(name) name __attribute__((weak, alias("p" #name), visibility("default")))

namespace gordian::emu::nccl {

// True while ncclBcast calls ncclBroadcast: that call is not the application's, and not counted.
extern thread_local bool inside_bcast;

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_ENTRY_H_
