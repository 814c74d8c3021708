#include "runtime/cpu/streams/own_streams.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "common/service_thread.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {

namespace {

// A caller that waits for the stream within kAtOnceNs of its last piece of work "waits at once" and
// runs the work itself. After kCustom such waits in a row, new work no longer wakes the stream's
// thread, which would compete with the callers: the thread looks for work every kNap, kNaps times
// without any, and then sleeps until it is woken.
constexpr int64_t kAtOnceNs = 20'000;
constexpr uint32_t kCustom = 8;
constexpr std::chrono::milliseconds kNap{1};
constexpr int kNaps = 10;

}  // namespace

struct OwnStreams::Stream {
  std::mutex mutex;
  std::condition_variable changed;  // the thread's
  std::condition_variable done;     // a piece of work is finished
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0, finished = 0;
  bool busy = false;        // a thread runs the piece that was first
  uint32_t at_once = 0;     // the last so many were waited for at once
  int64_t enqueued_ns = 0;  // the last one; 0: it has been waited for
  bool napping = false;     // the thread looks by itself before long
  bool ends = false;
  std::thread thread;

  // The first piece of work: there is one, and no thread is at it.
  void DoOne(std::unique_lock<std::mutex>& lock) {
    busy = true;
    {
      const std::function<void()> first = std::move(work.front());
      work.pop_front();
      lock.unlock();
      first();
    }
    lock.lock();
    busy = false;
    ++finished;
    done.notify_all();
  }
};

void OwnStreams::ThreadMain(Stream* s) {
  std::unique_lock<std::mutex> lock(s->mutex);
  int naps = 0;
  for (;;) {
    if (!s->busy && !s->work.empty()) {
      s->DoOne(lock);
    } else if (s->ends && s->work.empty() && !s->busy) {
      return;
    } else if (s->at_once >= kCustom && naps < kNaps) {
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
  made->thread = MakeServiceThread("grt-stream", [made] { ThreadMain(made); });
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
    if (s->enqueued_ns != 0) s->at_once = 0;
    s->enqueued_ns = NowNs();
    wake = !s->busy && !(s->at_once >= kCustom && s->napping);
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
    if (s->enqueued_ns != 0) s->at_once = NowNs() - s->enqueued_ns < kAtOnceNs ? s->at_once + 1 : 0;
    s->enqueued_ns = 0;
    while (!done()) {
      if (!s->busy) {
        s->DoOne(lock);
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
