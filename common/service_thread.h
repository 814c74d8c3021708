// Threads that a library runs for itself inside of someone else's program.
#ifndef GORDIAN_COMMON_SERVICE_THREAD_H_
#define GORDIAN_COMMON_SERVICE_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

namespace gordian {

// Starts a thread with all signals blocked: those are the application's business. A thread that
// never runs the application's code is named "gordian-" and something: by that name the collector
// knows that it waits for no rank (collector/process/process_watch.cc). `name`: up to 15 characters,
// static. Throws std::system_error where no thread can be had.
inline std::thread MakeServiceThread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([name, body = std::move(body)] {
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
