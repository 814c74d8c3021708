// Takes what the threads of one process have published since the last time, thread by thread. It
// merges nothing: Record::order does.
#ifndef GORDIAN_COLLECTOR_RINGS_RING_DRAINER_H_
#define GORDIAN_COLLECTOR_RINGS_RING_DRAINER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collector/rings/ring_file.h"
#include "common/ids.h"
#include "proto/ring/record.h"

namespace gordian::collector {

// Not thread-safe.
class RingDrainer {
 public:
  // `records` are copies, the sink's to change, in the order in which the thread published them.
  using Sink = std::function<void(ThreadNumber thread, std::span<ring::Record> records)>;

  // `file` must outlive this.
  explicit RingDrainer(RingFile* file) : file_(file) {}

  // Drains every thread, at most `max_records` in all: threads take turns, so that one that never
  // stops cannot starve the others. Returns how many records were handed out; less than max_records
  // means that every ring was empty at the moment it was looked at.
  uint64_t Drain(uint64_t max_records, const Sink& sink);

  // Records of this thread slot that were handed out or counted as overrun. Compare with ring_head.
  uint64_t collected(uint32_t slot) const;

  // The slot is damaged: nothing of it is read until it is handed to another thread.
  bool ignored(uint32_t slot) const { return slot < threads_.size() && threads_[slot].corrupt; }

  // Overwritten before we read them: a writer that does not keep the rules, or heads that jump.
  uint64_t overrun() const { return overrun_; }
  // Times a slot had a ring outside of the file, a head that went back, and the like.
  uint64_t corrupt() const { return corrupt_; }
  // The shim's own counts of all threads (records that found their ring full). By thread slots; the
  // header's count also has threads that got no slot.
  uint64_t lost_by_threads() const;

 private:
  struct Thread {
    uint64_t position = 0;  // next record to read
    uint64_t lost = 0;
    uint32_t generation = 0;
    bool seen = false;
    bool breaks_rules = false;  // has overwritten what was unread
    bool corrupt = false;       // ignored until its slot is handed out again
  };
  uint64_t DrainThread(uint32_t index, uint64_t max_records, const Sink& sink);

  RingFile* const file_;
  std::vector<Thread> threads_;
  std::vector<ring::Record> buffer_;
  uint32_t next_ = 0;  // which thread begins the next Drain
  uint64_t overrun_ = 0;
  uint64_t corrupt_ = 0;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_RING_DRAINER_H_
