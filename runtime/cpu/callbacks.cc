#include "runtime/cpu/callbacks.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "common/service_thread.h"

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

void RunCallbacks(std::vector<std::function<void(grtResult_t)>> callbacks, grtResult_t result) {
  if (callbacks.empty()) return;
  static Queue* queue = new Queue;  // its thread outlives main
  const std::lock_guard<std::mutex> lock(queue->mutex);
  for (std::function<void(grtResult_t)>& fn : callbacks) {
    queue->calls.push_back([fn = std::move(fn), result] { fn(result); });
  }
  if (!queue->started) {
    queue->started = true;
    MakeServiceThread("grt-callbacks", [] { ThreadMain(queue); }).detach();
  }
  queue->changed.notify_one();
}

}  // namespace gordian::runtime
