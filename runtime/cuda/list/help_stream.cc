#include "runtime/cuda/list/help_stream.h"

#include <algorithm>
#include <utility>

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

bool HelpStream::AnyOf(const Touched& touched, uint32_t marked, uint32_t end,
                       bool (*of)(const Touched&, const Touched&)) const {
  const auto known = static_cast<uint32_t>(unfinished_.size());
  const auto place = [&](uint32_t number) {
    const auto ahead = static_cast<int32_t>(number - (next_ - known));
    return ahead < 0 ? 0 : std::min(static_cast<uint32_t>(ahead), known);
  };
  for (uint32_t i = marked == 0 ? 0 : place(marked - 1); i < place(end); ++i) {
    if (of(touched, unfinished_[i])) return true;
  }
  return false;
}

bool HelpStream::Any(const Touched& touched, bool (*of)(const Touched&, const Touched&)) const {
  return AnyOf(touched, sequence_.marked(), next_, of) ||
         std::any_of(pasts_.begin(), pasts_.end(), [&](const Past& past) {
           return past.list->AnyOf(touched, past.marked, past.end, of);
         });
}

void HelpStream::Prune() {
  std::erase_if(pasts_, [](const Past& past) {
    past.list->Refresh();
    return static_cast<int32_t>(past.list->done_ - past.end) >= 0;
  });
}

bool HelpStream::HoldsUp(const std::vector<Touched>& group, cudaStream_t stream) {
  Refresh(stream, true);
  Prune();
  for (const Past& past : pasts_) {
    if (!past.list->TakesGuests(group.size())) return true;
  }
  std::deque<Room> rooms = rooms_;
  for (size_t i = 0; i < group.size(); ++i) {
    if (Any(group[i], ReadsOf)) return true;
    const bool over = Any(group[i], WritesOver);
    const bool within = std::any_of(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(i),
                                    [&](const Touched& e) { return WritesOver(group[i], e); });
    if (!over && !within) continue;
    if (TakeRoom(group[i], next_ + static_cast<uint32_t>(i), &rooms) == nullptr && over)
      return true;
  }
  return false;
}

void HelpStream::Enter(const HelpEntry& entry, const Touched& touched) {
  unfinished_.push_back(touched);
  shared_->entries[next_ % kHelpEntries] = entry;
  ++next_;
  __atomic_store_n(&shared_->tail, next_, __ATOMIC_RELEASE);
}

void HelpStream::Fill(HelpList* help, uint16_t channels) {
  help->entries = shared_->entries;
  help->tail = &shared_->tail;
  help->memory = memory_;
  help->lists = lists_;
  help->list = index_;
  help->counts = counts_;
  help->begun = &shared_->begun;
  help->gap = std::exchange(gap_, 0);
  help->id = help->first = help->last = newest_ = next_;
  help->channels[0] = channels;
  help->listed = 1;
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
  if (IsFull()) {
    Interrupt();
    return false;
  }
  Prune();
  // Other work that came onto the stream within a group counts as before the operation behind the
  // group.
  const bool interrupted =
      before != Before::kGroup && interrupted_.exchange(false, std::memory_order_acq_rel);
  bool marked = before == Before::kMore || interrupted || Any(touched, ReadsOf) ||
                std::any_of(pasts_.begin(), pasts_.end(),
                            [](const Past& past) { return !past.list->TakesGuests(1); });
  if (!marked && Any(touched, WritesOver)) {
    help->renamed = TakeRoom(touched, next_, &rooms_);
    marked = help->renamed == nullptr;
  }
  if (marked) {
    pasts_.clear();  // the entry begins behind them
  } else if (help->renamed != nullptr) {
    work.out = help->renamed;
    work.offered = 0;
  }
  HelpEntry entry = sequence_.Enter(work, next_, marked);
  for (const Past& past : pasts_) {
    if (past.marked != 0) entry.need[entry.needs++] = {past.list->index_, past.marked};
  }
  Fill(help, work.channels);
  at_mark_ = false;
  Enter(entry, touched);
  for (const Past& past : pasts_) past.list->PublishGuest(entry, past.end);
  return true;
}

void HelpStream::PublishGuest(const HelpEntry& entry, uint32_t before) {
  ++gap_;
  Enter(AsGuest(entry, before), {});
}

void HelpStream::Launched() {
  const std::lock_guard<std::mutex> lock(end_mutex_);
  end_.count = 0;
  for (const Past& past : pasts_) end_.pasts[end_.count++] = past;
  end_.pasts[end_.count++] = {this, next_, sequence_.marked()};
}

bool HelpStream::Here(PointOfList* point) const {
  if (interrupted_.load(std::memory_order_acquire)) return false;
  const std::lock_guard<std::mutex> lock(end_mutex_);
  *point = end_;
  return true;
}

bool HelpStream::IsPast(const PointOfList& point) {
  for (uint32_t i = 0; i < point.count; ++i) {
    HelpStream& list = *point.pasts[i].list;
    list.Refresh();
    if (static_cast<int32_t>(list.done_ - point.pasts[i].end) < 0) return false;
  }
  return true;
}

bool HelpStream::Mark(HelpList* help) {
  Refresh();
  const bool marked = interrupted_.exchange(false, std::memory_order_acq_rel);
  if (!marked && (next_ == done_ || at_mark_)) return false;
  if (IsFull() || gap_ == kHelpGap) {
    Interrupt();
    return false;
  }
  if (marked) pasts_.clear();
  *help = {};
  const uint32_t gap = gap_;
  Fill(help, 0);
  gap_ = gap + 1;
  at_mark_ = true;
  Enter(sequence_.EnterMark(help->id, marked), {});
  Launched();
  return true;
}

void HelpStream::Awaited(const PointOfList& point) {
  for (uint32_t i = 0; i < point.count; ++i) {
    const Past& past = point.pasts[i];
    if (past.list == this) continue;  // the stream's own past: it waits for that anyhow
    const auto known = std::find_if(pasts_.begin(), pasts_.end(),
                                    [&](const Past& p) { return p.list == past.list; });
    if (known == pasts_.end()) {
      pasts_.push_back(past);
    } else if (static_cast<int32_t>(past.end - known->end) > 0) {
      *known = past;
    }
  }
  Prune();
  if (pasts_.size() > kMostPasts) {
    pasts_.clear();
    Interrupt();
  }
  Launched();
}

void HelpStream::Forget() {
  pasts_.clear();
  Interrupt();
  Launched();
}

}  // namespace gordian::runtime::cuda
