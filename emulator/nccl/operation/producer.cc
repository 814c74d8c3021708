#include "emulator/nccl/operation/producer.h"

#include <algorithm>
#include <cstring>

namespace gordian::emu::nccl {

bool Producer::Publish(const Signature& signature, const std::byte* source, uint64_t total,
                       bool whole) {
  Arena& arena = Arena::Instance();
  arena.Reap();
  total_ = readers_.empty() ? 0 : total;
  source_ = source;
  region_bytes_ = whole ? total_ : std::min(total_, kRingBytes);
  if (region_bytes_ > 0) {
    uint64_t& unread = *state_->unread_bytes;
    if (unread > 0 && unread + region_bytes_ > kMaxUnreadBytes) return false;
    if (!arena.Allocate(region_bytes_, &region_offset_)) return false;
    owns_region_ = true;
    unread += region_bytes_;
  }
  slot_->signature = signature;
  slot_->total = total_;
  slot_->region_offset = region_offset_;
  slot_->region_bytes = region_bytes_;
  slot_->staged.store(0, std::memory_order_relaxed);
  for (int r = 0; r < state_->segment->nranks(); ++r) {
    slot_->consumed()[r].store(kNothingMore, std::memory_order_relaxed);
  }
  for (int r : readers_) slot_->consumed()[r].store(0, std::memory_order_relaxed);
  // litmus: producer.publish
  slot_->published.store(ordinal_ + 1, std::memory_order_release);
  published_ = true;
  return true;
}

uint64_t Producer::LeastConsumed() const {
  uint64_t least = kNothingMore;
  for (int r : readers_) {
    if (finished_(r)) continue;
    // litmus: producer.room
    least = std::min(least, slot_->consumed()[r].load(std::memory_order_acquire));
  }
  return least;
}

bool Producer::Stage() {
  if (!published_ || staged_ == total_) return false;
  uint64_t before = staged_;
  while (staged_ < total_) {
    uint64_t least = LeastConsumed();
    uint64_t limit = least > total_ ? total_ : std::min(total_, least + region_bytes_);
    if (limit <= staged_) break;
    uint64_t at = staged_ % region_bytes_;
    uint64_t n = std::min({limit - staged_, region_bytes_ - at, kChunkBytes});
    std::byte* to = Arena::Instance().At(region_offset_ + at, n);
    if (to == nullptr) break;  // no address space: as stuck as a device out of memory
    std::memcpy(to, source_ + staged_, n);
    staged_ += n;
    // litmus: producer.stage
    slot_->staged.store(staged_, std::memory_order_release);
  }
  return staged_ != before;
}

void Producer::Release() {
  if (!owns_region_) return;
  owns_region_ = false;
  auto consumed = [segment = state_->segment, slot = slot_, readers = readers_, total = total_,
                   finished = finished_, unread = state_->unread_bytes, bytes = region_bytes_] {
    for (int r : readers) {
      if (!finished(r) && slot->consumed()[r].load(std::memory_order_acquire) < total) return false;
    }
    *unread -= bytes;
    return true;
  };
  Arena::Instance().FreeWhen(region_offset_, region_bytes_, consumed);
}

}  // namespace gordian::emu::nccl
