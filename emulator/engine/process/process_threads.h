// Reads from /proc/self/task whether the threads of this process sleep, and in which system call.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_PROCESS_THREADS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_PROCESS_THREADS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::emu {

struct ThreadView {
  int thread = 0;
  std::string name;
  // Sleeps in a system call without a timeout: only another thread or process can make it move.
  bool asleep = false;
  std::string system_call;  // its name if known, else its number
  uint64_t switches = 0;
};

// All threads except the calling one and those named in the comma-separated list `ignored`. Returns
// false if /proc cannot be read: then nothing is known of this process.
bool LookAtThreads(const std::string& ignored, std::vector<ThreadView>* threads);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_PROCESS_THREADS_H_
