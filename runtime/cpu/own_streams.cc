#include "runtime/cpu/own_streams.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "runtime/cpu/callbacks.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {

namespace {

// The thread of a stream whose work others do looks so often, and so many times after the last work,
// before it sleeps until it is woken.
constexpr std::chrono::microseconds kNap{200};
constexpr int kNaps = 10;

}  // namespace

struct OwnStreams::Stream {
  std::mutex mutex;
  std::condition_variable changed;  // the thread's
  std::condition_variable done;     // a piece of work is finished
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0, finished = 0;
  bool busy = false;        // somebody is doing the first piece
  bool by_callers = false;  // callers of Synchronize did the last one
  bool napping = false;     // the thread looks by itself before long
  bool ends = false;
  std::thread thread;

  // The first piece of work: there is one, and nobody is busy.
  void DoOne(std::unique_lock<std::mutex>& lock, bool caller) {
    busy = true;
    {
      const std::function<void()> first = std::move(work.front());
      work.pop_front();
      lock.unlock();
      first();
    }
    lock.lock();
    busy = false;
    by_callers = caller;
    ++finished;
    done.notify_all();
  }
};

void OwnStreams::ThreadMain(Stream* s) {
  std::unique_lock<std::mutex> lock(s->mutex);
  int naps = 0;
  for (;;) {
    if (!s->busy && !s->work.empty()) {
      s->DoOne(lock, false);
    } else if (s->ends && s->work.empty() && !s->busy) {
      return;
    } else if (s->by_callers && naps < kNaps) {
      const uint64_t before = s->finished;
      s->napping = true;
      s->changed.wait_for(lock, kNap);
      s->napping = false;
      naps = s->finished == before ? naps + 1 : 0;
    } else {
      s->changed.wait(lock);
      naps = 0;
    }
  }
}

OwnStreams::Stream* OwnStreams::Find(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* found = reinterpret_cast<Stream*>(stream);
  return streams_.contains(found) ? found : nullptr;
}

grtResult_t OwnStreams::Create(cudaStream_t* stream) {
  auto* made = new Stream;
  made->thread = MakeThread("grt-stream", [made] { ThreadMain(made); });
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return grtSuccess;
}

grtResult_t OwnStreams::Launch(cudaStream_t stream, std::function<void()> work) {
  Stream* s = Find(stream);
  if (s == nullptr) return grtInvalidArgument;
  bool wake = false;
  {
    const std::lock_guard<std::mutex> lock(s->mutex);
    s->work.push_back(std::move(work));
    ++s->enqueued;
    // Where the callers wait at once and do the work themselves, the thread would only be in their way.
    wake = !s->busy && !(s->by_callers && s->napping);
  }
  if (wake) s->changed.notify_one();
  return grtSuccess;
}

grtResult_t OwnStreams::Synchronize(cudaStream_t stream, uint64_t timeout_ns) {
  Stream* s = Find(stream);
  if (s == nullptr) return grtInvalidArgument;
  std::unique_lock<std::mutex> lock(s->mutex);
  const uint64_t last = s->enqueued;
  const auto done = [&] { return s->finished >= last; };
  const int64_t deadline_ns = DeadlineIn(timeout_ns);
  if (deadline_ns == kForever) {
    while (!done()) {
      if (!s->busy) {
        s->DoOne(lock, true);
      } else {
        s->done.wait(lock);
      }
    }
    // What came meanwhile is the thread's.
    const bool wake = !s->busy && !s->work.empty();
    lock.unlock();
    if (wake) s->changed.notify_one();
    return grtSuccess;
  }
  // steady_clock is the monotonic clock here.
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline_ns)};
  return s->done.wait_until(lock, until, done) ? grtSuccess : grtTimeout;
}

grtResult_t OwnStreams::Destroy(cudaStream_t stream) {
  Stream* s = Find(stream);
  if (s == nullptr) return grtInvalidArgument;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(s);
  }
  {
    const std::lock_guard<std::mutex> lock(s->mutex);
    s->ends = true;
    s->changed.notify_one();
  }
  s->thread.join();
  delete s;
  return grtSuccess;
}

grtResult_t OwnStreams::Enqueue(const std::shared_ptr<Unit>& unit) {
  Engine* engine = unit->tasks.empty() ? unit->joins.front()->comm->engine()
                                       : unit->tasks.front()->comm->engine();
  return Launch(unit->stream, [engine, unit] {
    engine->Turn(unit);
    if (unit->strict) engine->Carry(unit);
  });
}

void OwnStreams::Release(const std::shared_ptr<Unit>&) {}  // the carrier looks at the unit

}  // namespace gordian::runtime
