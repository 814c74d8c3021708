#include "runtime/cuda/help_stream.h"

#include <algorithm>

namespace gordian::runtime::cuda {
namespace {

bool Overlap(uintptr_t begin_a, uintptr_t end_a, uintptr_t begin_b, uintptr_t end_b) {
  return begin_a < end_b && begin_b < end_a;
}

}  // namespace

bool MustFollow(const Touched& later, const Touched& earlier) {
  return Overlap(later.in_begin, later.in_end, earlier.out_begin, earlier.out_end) ||
         Overlap(later.out_begin, later.out_end, earlier.in_begin, earlier.in_end) ||
         Overlap(later.out_begin, later.out_end, earlier.out_begin, earlier.out_end);
}

HelpStream::~HelpStream() {
  for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
  for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
}

// What is known to be finished makes room. Never waits.
void HelpStream::Reap() {
  while (!marks_.empty() && cudaEventQuery(marks_.front().event) == cudaSuccess) {
    done_ = marks_.front().id + 1;
    spare_.push_back(marks_.front().event);
    marks_.pop_front();
  }
  while (unfinished_.size() > next_ - done_) unfinished_.pop_front();
}

bool HelpStream::Follows(const Touched& touched) const {
  return std::any_of(unfinished_.begin(), unfinished_.end(),
                     [&](const Touched& earlier) { return MustFollow(touched, earlier); });
}

bool HelpStream::Publish(Work work, const Touched& touched, bool first, HelpList* help) {
  *help = {};
  help->stop = stop_;
  // A kernel that is running reads entries behind its own, all of them unfinished.
  if (next_ - done_ >= kHelpEntries / 2) Reap();
  if (next_ - done_ >= kHelpEntries - 1) {
    interrupted_ = true;
    return false;
  }
  bool marked = first || interrupted_;
  if (!marked && Follows(touched)) {
    Reap();  // perhaps what it follows is done
    marked = Follows(touched);
  }
  if (marked) {
    unfinished_.clear();
    work.flags |= kBarrier;
  }
  unfinished_.push_back(touched);
  interrupted_ = false;
  if (keys_.insert(work.order_key).second) {
    __atomic_store_n(&shared_->keys, static_cast<uint32_t>(keys_.size()), __ATOMIC_RELEASE);
  }
  shared_->entries[next_ % kHelpEntries] = work;
  help->entries = shared_->entries;
  help->tail = &shared_->tail;
  help->keys = &shared_->keys;
  help->claims = claims_;
  help->helped = helped_;
  help->id = next_;
  help->listed = 1;
  ++next_;
  __atomic_store_n(&shared_->tail, next_, __ATOMIC_RELEASE);
  return true;
}

cudaError_t HelpStream::Launched(cudaStream_t stream) {
  Mark mark{nullptr, next_ - 1};
  if (!spare_.empty()) {
    mark.event = spare_.front();
    spare_.pop_front();
  } else if (const cudaError_t e = cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming);
             e != cudaSuccess) {
    return e;
  }
  if (const cudaError_t e = cudaEventRecord(mark.event, stream); e != cudaSuccess) return e;
  marks_.push_back(mark);
  return cudaSuccess;
}

}  // namespace gordian::runtime::cuda
