// What becomes of a member whose operation does not match the others'. Measured on two ranks; it
// depends on how NCCL moves data of the size, so it is a table and not a consequence of anything
// modelled here:
//
//   two ranks         small (< 256 KiB)      medium               large (> 64 MiB)
//   root, broadcast   completes              completes            hangs, both
//   operator          completes              completes            completes
//   kind              hangs, both            hangs, one finishes  hangs, one finishes
//
// Where counts or types make the bytes differ, the smaller and the larger decide:
//
//   both below 1.75 MiB                      hangs, the smaller finishes
//   one below it                             hangs, both
//   both from it on
//     smaller from 2, larger up to 65 MiB    completes
//     else                                   hangs, the smaller finishes
//
// H200s do not keep to it in each pair (docs/emulator.md). Of more than two members of a collective
// none finishes where "the smaller" does of two (four ranks, 4 KiB): its neighbours hold it up.
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
// Bounds of calls whose bytes differ, as DecideFate compares them. H200s showed the first to lie
// above 1.5 MiB and the last below 128 MiB.
inline constexpr uint64_t kUnequalMeetFromBytes = 1792ull << 10;
inline constexpr uint64_t kUnequalEndFromBytes = 2ull << 20;
inline constexpr uint64_t kUnequalEndUpToBytes = 65ull << 20;

enum class Fate { kCompletes, kHangs };

// Carried out as sends and receives: only the bytes between two members matter.
bool IsPairwise(Kind kind);

// For collectives. `others` are the members whose data `own` waits for.
Fate DecideFate(const Signature& own, std::span<const Signature> others);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_MISMATCH_H_
