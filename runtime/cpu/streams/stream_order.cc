#include "runtime/cpu/streams/stream_order.h"

#include <algorithm>
#include <utility>

namespace gordian::runtime {

StreamOrder& StreamOrder::Get() {
  static StreamOrder* order = new StreamOrder;  // threads outlive main
  return *order;
}

void StreamOrder::Declare(cudaStream_t stream, bool exclusive, bool empty, StreamDriver* driver) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stream& s = streams_[stream];
  if (s.exclusive && exclusive && !empty) return;  // what is known of it stays true
  s.exclusive = exclusive;
  s.apart = driver != nullptr && driver->StandsApart(stream);
  s.foreign = !empty;
  s.run = nullptr;
}

void StreamOrder::Foreign(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = streams_.find(stream);
  if (at != streams_.end()) at->second.foreign = true;
}

void StreamOrder::ForeignAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [handle, stream] : streams_) stream.foreign |= !stream.apart;
}

// Where other work stands at the end of a stream, a run begins behind it.
void StreamOrder::Mark(Stream* s, cudaStream_t stream, StreamDriver* driver) {
  if (!s->foreign || !s->exclusive || driver == nullptr) return;
  std::shared_ptr<StreamMarker> marker = driver->Mark(stream);
  if (marker == nullptr) return;
  s->run = std::make_shared<Run>();
  s->run->marker = std::move(marker);
  s->foreign = false;
}

void StreamOrder::Recorded(const void* event, cudaStream_t stream, StreamDriver* driver) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stream& s = streams_[stream];
  Mark(&s, stream, driver);
  events_[event] = Point{s.exclusive && !s.foreign, s.run};
}

void StreamOrder::Awaited(const void* event, cudaStream_t stream, StreamDriver* driver) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stream& s = streams_[stream];
  const auto at = events_.find(event);
  if (at == events_.end() || !at->second.clean) {
    s.foreign = true;
    return;
  }
  Mark(&s, stream, driver);
  if (s.foreign || at->second.run == nullptr) return;
  // What has started holds nothing up: rows of waits do not grow without end.
  if (Started(at->second.run.get())) return;
  auto run = std::make_shared<Run>();
  run->clean = true;
  if (s.run != nullptr && !Started(s.run.get())) run->after.push_back(std::move(s.run));
  run->after.push_back(at->second.run);
  s.run = std::move(run);
}

void StreamOrder::Forgotten(const void* event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.erase(event);
}

void StreamOrder::Forget(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.erase(stream);
}

void StreamOrder::Place(Unit* unit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stream& s = streams_[unit->stream];
  if (s.foreign || s.run == nullptr) {
    s.run = std::make_shared<Run>();
    s.run->clean = !s.foreign;
    s.foreign = false;
  }
  unit->early = s.exclusive;
  unit->run = s.run;
}

void StreamOrder::Turn(Unit* unit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unit->run == nullptr) return;
  unit->run->started = true;
  unit->run->marker.reset();
  unit->run->after.clear();
}

bool StreamOrder::Started(Run* run) {
  if (run->started) return true;
  if (run->marker != nullptr && run->marker->Reached()) {
    run->marker.reset();
    run->started = true;
    return true;
  }
  if (!run->clean) return false;
  for (const std::shared_ptr<Run>& before : run->after) {
    if (!Started(before.get())) return false;
  }
  run->started = true;
  run->after.clear();
  return true;
}

bool StreamOrder::HasStarted(const Unit& unit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unit.run != nullptr && Started(unit.run.get());
}

void StreamOrder::AddDeferred(cudaStream_t stream, const std::shared_ptr<Task>& task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_[stream].deferred.push_back(task);
}

std::vector<std::shared_ptr<Task>> StreamOrder::TakeDeferred(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = streams_.find(stream);
  return at == streams_.end() ? std::vector<std::shared_ptr<Task>>()
                              : std::exchange(at->second.deferred, {});
}

bool StreamOrder::DeferredConflict(cudaStream_t stream, const Range& reads, const Range& writes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return false;
  return std::any_of(at->second.deferred.begin(), at->second.deferred.end(),
                     [&](const std::shared_ptr<Task>& task) {
                       return task->writes.Overlaps(reads) || task->writes.Overlaps(writes) ||
                              task->reads.Overlaps(writes);
                     });
}

}  // namespace gordian::runtime
