// Whether the threads of this process sleep, and in what, from /proc/self/task.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_THREADS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_THREADS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::emu {

struct ThreadView {
  int thread = 0;
  std::string name;
  // Sleeps in a system call that has no timeout: only somebody else can make it move.
  bool asleep = false;
  std::string system_call;  // its name when we know it, else its number
  uint64_t switches = 0;
};

// All threads but the calling one and those whose name is in the comma-separated list `ignored`.
// False when /proc does not tell (then nothing can be said about this process).
bool LookAtThreads(const std::string& ignored, std::vector<ThreadView>* threads);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_THREADS_H_
