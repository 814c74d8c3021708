#include "runtime/cpu/own_streams.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {

struct OwnStreams::Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0, finished = 0;
  bool ends = false;
  std::thread thread;
};

void OwnStreams::ThreadMain(Stream* stream) {
  std::unique_lock<std::mutex> lock(stream->mutex);
  for (;;) {
    stream->changed.wait(lock, [stream] { return stream->ends || !stream->work.empty(); });
    if (stream->work.empty()) return;
    {
      const std::function<void()> work = std::move(stream->work.front());
      stream->work.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
    ++stream->finished;
    stream->changed.notify_all();
  }
}

OwnStreams::Stream* OwnStreams::Find(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* found = reinterpret_cast<Stream*>(stream);
  return streams_.contains(found) ? found : nullptr;
}

grtResult_t OwnStreams::Create(cudaStream_t* stream) {
  auto* made = new Stream;
  made->thread = std::thread([made] { ThreadMain(made); });
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return grtSuccess;
}

grtResult_t OwnStreams::Launch(cudaStream_t stream, std::function<void()> work) {
  Stream* s = Find(stream);
  if (s == nullptr) return grtInvalidArgument;
  const std::lock_guard<std::mutex> lock(s->mutex);
  s->work.push_back(std::move(work));
  ++s->enqueued;
  s->changed.notify_all();
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
    s->changed.wait(lock, done);
    return grtSuccess;
  }
  // steady_clock is the monotonic clock here.
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline_ns)};
  return s->changed.wait_until(lock, until, done) ? grtSuccess : grtTimeout;
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
    s->changed.notify_all();
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
