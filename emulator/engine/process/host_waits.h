// Host threads that sleep inside the emulator, for the quiescence report. Threads: any.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_WAITS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_WAITS_H_

#include <mutex>
#include <vector>

#include "emulator/engine/engine_api.h"

namespace gordian::emu {

class HostWaits {
 public:
  static HostWaits& Get();

  // Off by default; Begin and End then do nothing.
  void Enable() { enabled_.store(true); }
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  void Begin(HostWait* wait);
  void End(HostWait* wait);

  // False if one of them has been woken, or was about to look again.
  bool AllAsleep() const;
  // Wakes those whose word has changed since they looked; returns true if there is one.
  bool WakeTheChanged() const;
  // Calls `visit` for each, while none of them can leave.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const HostWait* wait : waits_) visit(*wait);
  }

 private:
  std::atomic<bool> enabled_{false};
  mutable std::mutex mutex_;
  std::vector<HostWait*> waits_;
};

// The API call that the calling thread is in, for reports; a string literal.
extern thread_local const char* current_call;

// Names the calling thread's waits while this object lives; the outermost name wins.
class WaitName {
 public:
  explicit WaitName(const char* name);
  ~WaitName();
  static const char* Current();

 private:
  bool outermost_;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_WAITS_H_
