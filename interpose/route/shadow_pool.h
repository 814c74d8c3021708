// Which ranges of a pool the shadows have (shadows.h): first fit by offset. It knows no memory.
//
// Threads: one at a time. Allocates nothing; every call is linear in the number of ranges.
#ifndef GORDIAN_INTERPOSE_ROUTE_SHADOW_POOL_H_
#define GORDIAN_INTERPOSE_ROUTE_SHADOW_POOL_H_

#include <stdint.h>
#include <string.h>

namespace gordian::interpose {

class ShadowPool {
 public:
  static constexpr uint32_t kMostRanges = 1024;
  static constexpr uint64_t kAlign = 256;  // bytes, of offsets and lengths
  static constexpr uint64_t kNoHolder = UINT64_MAX;

  // Forgets all ranges.
  void Reset(uint64_t bytes) {
    bytes_ = bytes;
    count_ = cursor_ = 0;
  }

  // Takes a range without a holder: Sweep does not free it until Hold names one. False: no gap is
  // as long, or there are kMostRanges.
  bool Take(uint64_t bytes, uint64_t* at) {
    if (bytes == 0 || bytes > bytes_ || count_ == kMostRanges) return false;
    const uint64_t length = (bytes + kAlign - 1) / kAlign * kAlign;
    uint64_t free = 0;
    uint32_t place = 0;
    while (place < count_ && range_[place].at - free < length) {
      free = range_[place].at + range_[place].bytes;
      ++place;
    }
    if (place == count_ && (free > bytes_ || bytes_ - free < bytes)) return false;
    memmove(&range_[place + 1], &range_[place], (count_ - place) * sizeof range_[0]);
    ++count_;
    if (place <= cursor_) ++cursor_;
    range_[place] = {free, length, kNoHolder};
    *at = free;
    return true;
  }

  void Hold(uint64_t at, uint64_t holder) {
    const uint32_t place = Find(at);
    if (place != count_) range_[place].holder = holder;
  }

  // Looks at no more than `most` ranges, each time at those behind the last, and frees the held
  // ones for which `over(holder)` is true.
  template <typename Over>
  void Sweep(uint32_t most, const Over& over) {
    const uint32_t looks = most < count_ ? most : count_;
    for (uint32_t i = 0; i < looks; ++i) {
      if (cursor_ >= count_) cursor_ = 0;
      if (range_[cursor_].holder == kNoHolder || !over(range_[cursor_].holder)) {
        ++cursor_;
        continue;
      }
      --count_;
      memmove(&range_[cursor_], &range_[cursor_ + 1], (count_ - cursor_) * sizeof range_[0]);
    }
  }

  uint32_t ranges() const { return count_; }

 private:
  struct Range {
    uint64_t at, bytes, holder;
  };

  uint32_t Find(uint64_t at) const {
    uint32_t place = 0;
    while (place < count_ && range_[place].at != at) ++place;
    return place;
  }

  uint64_t bytes_;
  uint32_t count_, cursor_;   // cursor_: where the next sweep begins
  Range range_[kMostRanges];  // by offset
};

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_SHADOW_POOL_H_
