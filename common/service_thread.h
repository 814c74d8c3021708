// Threads that a library runs for itself inside of someone else's program.
#ifndef GORDIAN_COMMON_SERVICE_THREAD_H_
#define GORDIAN_COMMON_SERVICE_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

namespace gordian {

// Starts a thread with all signals blocked: those are the application's business. A thread that
// never runs the application's code has a name that begins with "gordian-": by it the collector
// knows that the thread will make no call of NCCL (collector/process/process_watch.cc). `name`: a
// literal, since the thread sets it itself. Throws std::system_error where no thread can be had.
template <size_t kSize>
std::thread MakeServiceThread(const char (&name)[kSize], std::function<void()> body) {
  static_assert(kSize <= 16, "Linux takes names of up to 15 characters");
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([name = &name[0], body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace gordian

#endif  // GORDIAN_COMMON_SERVICE_THREAD_H_
