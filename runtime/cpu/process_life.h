// Whether a peer's process is still there. A stopped one is.
#ifndef GORDIAN_RUNTIME_CPU_PROCESS_LIFE_H_
#define GORDIAN_RUNTIME_CPU_PROCESS_LIFE_H_

#include <sys/types.h>

#include <cstdint>

namespace gordian::runtime {

// What tells a process from a later one of the same number. Ticks since boot; 0 when unknown.
uint64_t StartTime(pid_t pid);
// The namespace that process numbers are of; processes of others cannot be watched. 0 when unknown.
uint64_t PidNamespace();

// At this moment: by a signal or a debugger. False also when it cannot be known.
bool IsStopped(pid_t pid, uint64_t start_time, uint64_t pid_namespace);

// One peer. Not thread-safe.
class ProcessLife {
 public:
  ProcessLife() = default;
  ~ProcessLife();
  ProcessLife(const ProcessLife&) = delete;
  ProcessLife& operator=(const ProcessLife&) = delete;

  // True once the process has ended (a zombie has). False also when it cannot be known.
  bool HasEnded(pid_t pid, uint64_t start_time, uint64_t pid_namespace);

 private:
  int pidfd_ = -1;
  bool looked_ = false;
  bool ended_ = false;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_PROCESS_LIFE_H_
