// Guards access to mapped files that another process may truncate: the SIGBUS ends the access, not
// the program. Any thread.
#ifndef GORDIAN_COLLECTOR_RINGS_BUS_GUARD_H_
#define GORDIAN_COLLECTOR_RINGS_BUS_GUARD_H_

#include <cstddef>

namespace gordian::collector {

// Installs the SIGBUS handler; once a process, more calls do nothing. A SIGBUS that is not within a
// guarded access goes to the handler that was there before, or ends the process as it would have.
void InstallBusGuard();

// Runs access(context). False: it touched a part of [base, base + bytes) that its file no longer
// has; it was left at that instruction, so it must own nothing that needs a destructor. Does not
// nest.
bool RunGuarded(const void* base, size_t bytes, void (*access)(void*), void* context);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_BUS_GUARD_H_
