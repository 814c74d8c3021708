// What becomes of a member whose operation does not match the others'. Measured on two ranks; it
// depends on the protocol that the size selects, so it is a table and not a consequence of anything
// modelled here:
//
//   two ranks         small (< 256 KiB)      medium               large (> 64 MiB)
//   count             hangs, one finishes    completes            hangs, one finishes
//   root, broadcast   completes              completes            hangs, both
//   operator          completes              completes            completes
//   kind              hangs, both            hangs, one finishes  hangs, one finishes
//   type              hangs, one finishes    completes            hangs, one finishes
//
// For more ranks "one finishes" becomes: those with the fewest bytes finish.
//
// The collectives that a group has on one communicator are one kernel, which divides its channels
// among them: it does not meet the kernels of members that called them singly, whatever their
// arguments (two all-reduces on two ranks of H200s: at 8 B the first of the group meets the first
// call, the second meets nothing; at 1 MiB neither does; at 64 and 128 MiB one rank, now this, now
// that, ends with wrong data, which is not modelled: both hang). Those that are carried out as
// sends and receives are not concerned.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_MISMATCH_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_MISMATCH_H_

#include <span>

#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::nccl {

inline constexpr uint64_t kSmallBelowBytes = 256ull << 10;
inline constexpr uint64_t kLargeAboveBytes = 64ull << 20;

enum class Fate { kCompletes, kHangs };

// Carried out as sends and receives: only the bytes between two members matter.
bool IsPairwise(Kind kind);

// For collectives. `others` are the members whose data `own` waits for.
Fate DecideFate(const Signature& own, std::span<const Signature> others);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_MISMATCH_H_
