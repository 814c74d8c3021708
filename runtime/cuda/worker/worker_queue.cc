#include "runtime/cuda/worker/worker_queue.h"

#include <algorithm>

namespace gordian::runtime::cuda {

WorkerQueue::Held* WorkerQueue::Find(uint32_t ticket) {
  const auto key = key_of_.find(ticket);
  if (key == key_of_.end()) return nullptr;
  for (Held& held : lines_.at(key->second)) {
    if (held.ticket == ticket) return &held;
  }
  return nullptr;
}

void WorkerQueue::Cancel(uint32_t ticket) {
  const auto key = key_of_.find(ticket);
  if (key == key_of_.end()) return;
  const auto line = lines_.find(key->second);
  std::erase_if(line->second, [&](const Held& held) { return held.ticket == ticket; });
  End(ticket);
  // Operations behind it no longer wait for it: let Flush() look at them.
  if (line->second.empty()) {
    lines_.erase(line);
  } else {
    full_.insert(key->second);
  }
  key_of_.erase(key);
}

void WorkerQueue::Forget(uint64_t port) {
  const auto begin = lines_.lower_bound({port, 0}), end = lines_.lower_bound({port + 1, 0});
  for (auto line = begin; line != end; ++line) {
    for (const Held& held : line->second) {
      End(held.ticket);
      key_of_.erase(held.ticket);
    }
  }
  lines_.erase(begin, end);
  list_.Forget(port);
}

void WorkerQueue::EndAll() {
  lines_.clear();
  key_of_.clear();
  full_.clear();
  for (uint32_t back = kTickets; back > 0; --back) {
    if (!IsDone(next_ - back)) End(next_ - back);
  }
}

void WorkerQueue::Note(uint32_t ticket, std::shared_ptr<void> note) {
  if (Held* const held = Find(ticket)) held->note = std::move(note);
}

std::vector<std::shared_ptr<void>> WorkerQueue::NotesBefore(uint32_t ticket) const {
  std::vector<std::shared_ptr<void>> notes;
  const auto key = key_of_.find(ticket);
  if (key == key_of_.end()) return notes;
  for (const Held& held : lines_.at(key->second)) {
    if (held.note != nullptr) notes.push_back(held.note);
    if (held.ticket == ticket) break;
  }
  return notes;
}

}  // namespace gordian::runtime::cuda
