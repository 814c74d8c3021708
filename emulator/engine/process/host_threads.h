// The thread on which a device's host functions run, one after the other: as with the real driver,
// a host function that blocks delays the device's other host functions, and nothing else. Threads:
// any; Run does not block.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_THREADS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace gordian::emu {

class HostThread {
 public:
  void Run(std::function<void()> job);

 private:
  void ThreadMain();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool started_ = false;
};

// Starts a detached thread with all signals blocked, since signals belong to the application.
// Returns false if the system has no thread to give.
bool StartThread(const char* name, std::function<void()> body);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_HOST_THREADS_H_
