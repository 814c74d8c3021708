// Gives up what a verb does not need before it reads what others wrote, so that a mistake in a
// reader (libdw's, of programs that a trace names, among them) is worth less.
#ifndef GORDIAN_CLI_LEAST_POWER_H_
#define GORDIAN_CLI_LEAST_POWER_H_

#include "common/status.h"

namespace gordian::cli {

// What a verb needs beside reading and writing files.
struct Needs {
  bool network = false;    // sockets
  bool processes = false;  // to read and stop other processes, and to send them signals
};

// From here on this process, all its threads, and what they start: no new privileges (execve gives
// none, by no set-user-ID bit), and by seccomp no execve, no mount, module, bpf or keyring calls,
// and none of what `needs` leaves out; such a call fails with EPERM. Cannot be undone. An error is
// no reason to stop: a container may allow no seccomp. A build with AddressSanitizer installs no
// filter, since its leak check stops its own threads by ptrace.
Status KeepOnly(const Needs& needs);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_LEAST_POWER_H_
