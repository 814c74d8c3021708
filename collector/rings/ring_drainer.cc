#include "collector/rings/ring_drainer.h"

#include <algorithm>

namespace gordian::collector {
namespace {

// Copied at once. Also the bound on what a writer may overwrite while we copy.
constexpr uint64_t kBatch = 512;

}  // namespace

uint64_t RingDrainer::Drain(uint64_t max_records, const Sink& sink) {
  ring::Header header;
  if (!file_->ReadHeader(&header)) {
    return 0;
  }
  // Slots that were used once stay worth a look even if the header now says less.
  if (header.threads_used > threads_.size()) {
    threads_.resize(header.threads_used);
  }
  const auto count = static_cast<uint32_t>(threads_.size());
  uint64_t drained = 0;
  for (bool any = true; any && drained < max_records;) {
    any = false;
    for (uint32_t i = 0; i < count && drained < max_records; ++i) {
      const uint32_t index = (next_ + i) % count;
      const uint64_t got = DrainThread(index, std::min(kBatch, max_records - drained), sink);
      drained += got;
      any = any || got == kBatch;
    }
  }
  if (count > 0) {
    next_ = (next_ + 1) % count;
  }
  return drained;
}

uint64_t RingDrainer::DrainThread(uint32_t index, uint64_t max_records, const Sink& sink) {
  Thread& thread = threads_[index];
  RingFile::RingPosition at;
  if (!file_->ReadPosition(index, &at)) {
    return 0;
  }
  if (thread.seen && at.generation != thread.generation) {
    // The slot went to another thread, which it only does when nothing is left unread. Its head
    // goes on from there; a head that starts again at 0 is accepted too.
    thread.corrupt = false;
    thread.breaks_rules = false;
    if (at.head < thread.position) {
      thread.position = 0;
    }
  }
  thread.seen = true;
  thread.generation = at.generation;
  if (at.lost <= kMostCounted) {
    thread.lost = std::max(thread.lost, at.lost);
  }
  if (thread.corrupt || at.head == thread.position) {
    return 0;
  }
  if (at.head < thread.position || at.head > kMostCounted || at.lost > kMostCounted ||
      !file_->ValidRing(at.offset, at.slots)) {
    thread.corrupt = true;
    ++corrupt_;
    return 0;
  }
  // A writer that goes beyond the tail breaks its rules, and then may be amid the record that comes
  // next, too: one slot less is to be trusted from then on.
  thread.breaks_rules = thread.breaks_rules || at.head - thread.position > at.slots;
  const uint64_t window = thread.breaks_rules ? at.slots - 1 : at.slots;
  if (at.head - thread.position > window) {
    overrun_ += at.head - window - thread.position;
    thread.position = at.head - window;
  }
  if (at.head == thread.position) {
    return 0;  // a ring of one slot has no window
  }
  const uint64_t count = std::min({at.head - thread.position, max_records, kBatch});
  buffer_.resize(count);
  if (!file_->ReadRecords(at.offset, at.slots, thread.position, buffer_)) {
    return 0;
  }
  // What the writer published meanwhile may have gone over what we copied: the oldest first.
  RingFile::RingPosition now;
  if (!file_->ReadPosition(index, &now)) {
    return 0;
  }
  uint64_t spoilt = 0;
  if (now.generation == at.generation && now.head > at.head &&
      now.head - thread.position > window) {
    thread.breaks_rules = true;
    spoilt = std::min(count, now.head - thread.position - (at.slots - 1));
    overrun_ += spoilt;
  }
  thread.position += count;
  file_->StoreTail(index, thread.position);
  if (spoilt < count) {
    sink(MakeThreadNumber(index, at.generation), std::span<ring::Record>(buffer_).subspan(spoilt));
  }
  return count;
}

uint64_t RingDrainer::collected(uint32_t slot) const {
  return slot < threads_.size() ? threads_[slot].position : 0;
}

uint64_t RingDrainer::lost_by_threads() const {
  uint64_t sum = 0;
  for (const Thread& thread : threads_) {
    sum += thread.lost;
  }
  return sum;
}

}  // namespace gordian::collector
