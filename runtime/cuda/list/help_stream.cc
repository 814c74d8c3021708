#include "runtime/cuda/list/help_stream.h"

#include <algorithm>

#include "runtime/cuda/driver/cuda_calls.h"

namespace gordian::runtime::cuda {
namespace {

bool Overlap(uintptr_t begin_a, uintptr_t end_a, uintptr_t begin_b, uintptr_t end_b) {
  return begin_a < end_b && begin_b < end_a;
}

}  // namespace

bool ReadsOf(const Touched& later, const Touched& earlier) {
  return Overlap(later.in_begin, later.in_end, earlier.out_begin, earlier.out_end);
}

bool WritesOver(const Touched& later, const Touched& earlier) {
  return Overlap(later.out_begin, later.out_end, earlier.in_begin, earlier.in_end) ||
         Overlap(later.out_begin, later.out_end, earlier.out_begin, earlier.out_end);
}

bool Disturbs(const Touched& later, const Touched& earlier) {
  return ReadsOf(later, earlier) || WritesOver(later, earlier);
}

Touched TouchedBy(OpKind kind, const void* in, const void* out, uint64_t count, DataType type,
                  uint32_t ranks) {
  Touched touched;
  const uint64_t size = SizeOf(type);
  if (in != nullptr) {
    touched.in_begin = reinterpret_cast<uintptr_t>(in);
    touched.in_end = touched.in_begin + InputCount(kind, count, ranks) * size;
  }
  if (out != nullptr) {
    touched.out_begin = reinterpret_cast<uintptr_t>(out);
    touched.out_end = touched.out_begin + OutputCount(kind, count, ranks) * size;
  }
  return touched;
}

// Needs no event for each operation: a kernel that begins stores its number, and then all entries
// before it on its stream are done. Only for the last entry it queries the driver, before another
// kernel is launched: after that a query would no longer say whether the last entry is done.
void HelpStream::Refresh(cudaStream_t stream, bool asks) {
  const uint32_t begun = __atomic_load_n(&shared_->begun, __ATOMIC_ACQUIRE);
  if (static_cast<int32_t>(begun - 1 - done_) > 0) done_ = begun - 1;
  if (asks && done_ == newest_ && begun == newest_ + 1) {
    if (IsThrough(cudaStreamQuery(stream))) done_ = next_;
  }
  while (unfinished_.size() > next_ - done_) unfinished_.pop_front();
}

HelpList HelpStream::Join(const std::vector<HelpList>& entries) {
  if (newest_ == entries.back().id) newest_ = entries.front().id;
  return OfOneKernel(entries);
}

bool HelpStream::IsDone(uint32_t id, cudaStream_t stream) {
  Refresh(stream, true);
  return static_cast<int32_t>(done_ - id) > 0;
}

char* HelpStream::TakeRoom(const Touched& touched, uint32_t id, std::deque<Room>* rooms) const {
  constexpr uint64_t kAlignment = 256;
  const uintptr_t out = touched.out_begin;
  while (!rooms->empty() && static_cast<int32_t>(done_ - rooms->front().id) > 0) rooms->pop_front();
  const uint64_t wanted = RoundUp(touched.out_end - out + out % kAlignment, kAlignment);
  uint64_t begin = rooms->empty() ? 0 : rooms->back().end;
  const uint64_t oldest = rooms->empty() ? room_bytes_ : rooms->front().begin;
  if (!rooms->empty() && begin > oldest) {  // free behind it, and in front of the oldest
    if (begin + wanted > room_bytes_) begin = 0;
    if (begin == 0 && wanted > oldest) return nullptr;
    if (begin != 0 && begin + wanted > room_bytes_) return nullptr;
  } else if (begin + wanted > oldest) {
    return nullptr;
  }
  rooms->push_back({id, begin, begin + wanted});
  return room_ + begin + out % kAlignment;
}

bool HelpStream::HoldsUp(const std::vector<Touched>& group, cudaStream_t stream) {
  Refresh(stream, true);
  std::deque<Room> rooms = rooms_;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto any = [&](const auto& earlier, size_t count,
                         bool (*of)(const Touched&, const Touched&)) {
      return std::any_of(earlier.begin(), earlier.begin() + static_cast<std::ptrdiff_t>(count),
                         [&](const Touched& e) { return of(group[i], e); });
    };
    if (any(unfinished_, unfinished_.size(), ReadsOf)) return true;
    const bool over = any(unfinished_, unfinished_.size(), WritesOver);
    if (!over && !any(group, i, WritesOver)) continue;
    if (TakeRoom(group[i], next_ + static_cast<uint32_t>(i), &rooms) == nullptr && over)
      return true;
  }
  return false;
}

bool HelpStream::Publish(Work work, const Touched& touched, Before before, cudaStream_t stream,
                         HelpList* help) {
  *help = {};
  help->stop = stop_;
  help->seen = &memory_->seen;
  // A running kernel reads entries behind its own, so their places must stay: the list holds only
  // so many unfinished ones. Do not query the driver if the entry is marked anyway: it then waits
  // for all before it, finished or not.
  Refresh(stream, before != Before::kMore);
  if (next_ - done_ >= kHelpUnfinished) {
    Interrupt();
    return false;
  }
  // Other work that came onto the stream within a group counts as before the operation behind the
  // group.
  const bool interrupted =
      before != Before::kGroup && interrupted_.exchange(false, std::memory_order_acq_rel);
  const auto any = [&](bool (*of)(const Touched&, const Touched&)) {
    return std::any_of(unfinished_.begin(), unfinished_.end(),
                       [&](const Touched& earlier) { return of(touched, earlier); });
  };
  bool marked = before == Before::kMore || interrupted || any(ReadsOf);
  if (!marked && any(WritesOver)) {
    help->renamed = TakeRoom(touched, next_, &rooms_);
    marked = help->renamed == nullptr;
  }
  if (marked) {
    unfinished_.clear();
  } else if (help->renamed != nullptr) {
    work.out = help->renamed;
    work.offered = 0;
  }
  unfinished_.push_back(touched);
  shared_->entries[next_ % kHelpEntries] = sequence_.Enter(work, next_, marked);
  help->entries = shared_->entries;
  help->tail = &shared_->tail;
  help->memory = memory_;
  help->counts = counts_;
  help->begun = &shared_->begun;
  help->id = help->first = help->last = newest_ = next_;
  help->channels[0] = work.channels;
  help->listed = 1;
  ++next_;
  __atomic_store_n(&shared_->tail, next_, __ATOMIC_RELEASE);
  return true;
}

}  // namespace gordian::runtime::cuda
