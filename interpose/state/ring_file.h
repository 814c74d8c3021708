// Makes the mapped file of proto/ring/layout.h, and hands out its parts.
#ifndef GORDIAN_INTERPOSE_STATE_RING_FILE_H_
#define GORDIAN_INTERPOSE_STATE_RING_FILE_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Creates $GORDIAN_RING_DIR/<pid>.<start>.ring, reserves header and state block, and maps it.
// Returns null, leaving nothing behind, if the variable is unset or any step fails (folder, space,
// permission).
Process* CreateProcess(uint64_t epoch);

// Room in the file for one more ring; bytes == 0 when the file is used up.
struct RingSpace {
  uint64_t offset;
  uint64_t bytes;
};

// Under the process's thread_lock.
RingSpace TakeRingSpace(Process& process);

// Room in the file for something else than a ring, as its offset; reserved. 0: there is none. Asks
// the kernel for memory.
uint64_t TakeStateSpace(Process& process, uint64_t bytes);

// Gives `thread` a ring there, or none when the file system is full. Without the lock: it asks the
// kernel for memory, and threads that start together must not wait for each other's.
void HandOutRing(Process& process, ThreadContext& thread, RingSpace space);

// Improves Header::clock.ns_per_tick_q32 by the time that has passed since the file was made.
void RefineClock(Process& process);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_RING_FILE_H_
