// Removes abandoned rendezvous files.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_STALE_FILES_H_
#define GORDIAN_EMULATOR_NCCL_COMM_STALE_FILES_H_

namespace gordian::emu::nccl {

inline constexpr char kRendezvousFolder[] = "/dev/shm";
inline constexpr char kRendezvousPrefix[] = "/dev/shm/gordian-emu-";

// Removes the rendezvous files whose creator and members are all dead. `leaving` counts this
// process as dead.
void SweepStaleFiles(bool leaving);

// Makes this process sweep when it ends, since it may leave an incomplete rendezvous.
void NoteUnfinishedJoin();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_STALE_FILES_H_
