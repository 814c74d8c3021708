#include "runtime/cpu/callbacks.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace gordian::runtime {
namespace {

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  bool started = false;
};

void ThreadMain(Queue* queue) {
  std::unique_lock<std::mutex> lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [queue] { return !queue->calls.empty(); });
    const std::function<void()> call = std::move(queue->calls.front());
    queue->calls.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

}  // namespace

std::thread MakeThread(const char* name, std::function<void()> body) {
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

void StartThread(const char* name, std::function<void()> body) {
  MakeThread(name, std::move(body)).detach();
}

void RunCallbacks(std::vector<std::function<void(grtResult_t)>> callbacks, grtResult_t result) {
  if (callbacks.empty()) return;
  static Queue* queue = new Queue;  // its thread outlives main
  const std::lock_guard<std::mutex> lock(queue->mutex);
  for (std::function<void(grtResult_t)>& fn : callbacks) {
    queue->calls.push_back([fn = std::move(fn), result] { fn(result); });
  }
  if (!queue->started) {
    queue->started = true;
    StartThread("grt-callbacks", [] { ThreadMain(queue); });
  }
  queue->changed.notify_one();
}

}  // namespace gordian::runtime
