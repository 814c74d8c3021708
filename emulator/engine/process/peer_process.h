// Identifies processes of this machine, and opens what they have open.
//
// A process whose main thread has ended by pthread_exit lives on: /proc/PID then shows a zombie
// without open files, and only its other threads' entries show them.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_PEER_PROCESS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_PEER_PROCESS_H_

#include <cstdint>

namespace gordian::emu {

// Clock ticks from boot to the start of the process; 0 when there is none, or it is a zombie whose
// last thread has ended.
uint64_t StartTimeOf(int pid);

// A descriptor of its own of the file that process `pid` has open as `fd`, for reading and writing;
// negative when that cannot be opened.
int OpenDescriptorOf(int pid, int fd);

// The inode of this process's pid namespace; 0 when it cannot be read.
uint64_t PidNamespace();

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_PEER_PROCESS_H_
