// Threads for host functions. There are as many as host functions run at one moment: a function
// that blocks keeps its own stream back and nothing else. Threads: any; Run does not block.
#ifndef GORDIAN_EMULATOR_ENGINE_HOST_THREADS_H_
#define GORDIAN_EMULATOR_ENGINE_HOST_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace gordian::emu {

class HostThreads {
 public:
  void Run(std::function<void()> job);

 private:
  void ThreadMain();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  size_t idle_ = 0;
};

// Starts a detached thread with all signals blocked: signals are the application's business. False
// when the system has no thread to give.
bool StartThread(const char* name, std::function<void()> body);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_HOST_THREADS_H_
