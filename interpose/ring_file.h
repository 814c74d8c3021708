// Makes the mapped file of proto/ring/layout.h, and hands out its parts.
#ifndef GORDIAN_INTERPOSE_RING_FILE_H_
#define GORDIAN_INTERPOSE_RING_FILE_H_

#include "interpose/shim_state.h"

namespace gordian::interpose {

// Creates $GORDIAN_RING_DIR/<pid>.<start>.ring, reserves header and state block, maps it. Null,
// with nothing left behind, when the variable is not set or any step fails: no folder, no space, no
// right.
Process* CreateProcess(uint64_t epoch);

// Gives `thread` a ring, or none when the file is used up or the file system full. Under the
// process's thread_lock.
void HandOutRing(Process& process, ThreadContext& thread);

// Improves Header::clock.ns_per_tick_q32 by the time that has passed since the file was made.
void RefineClock(Process& process);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_RING_FILE_H_
