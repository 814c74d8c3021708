// Rendezvous files that nobody needs any more, and what tells processes apart.
#ifndef GORDIAN_EMULATOR_NCCL_STALE_FILES_H_
#define GORDIAN_EMULATOR_NCCL_STALE_FILES_H_

#include <cstdint>

namespace gordian::emu::nccl {

inline constexpr char kRendezvousFolder[] = "/dev/shm";
inline constexpr char kRendezvousPrefix[] = "/dev/shm/gordian-emu-";

// Clock ticks from boot to the start of the process; 0 when there is none.
uint64_t ProcessStartTime(int pid);
uint64_t PidNamespace();

// Removes the rendezvous files whose creator and joined members are all dead. With `leaving` this
// process counts as dead.
void SweepStaleFiles(bool leaving);

// Makes the end of this process sweep, since it may leave a rendezvous that never became complete.
void NoteUnfinishedJoin();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_STALE_FILES_H_
