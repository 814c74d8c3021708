// Puts the records of one process, which arrive thread by thread, back into the order of its calls.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_RECORD_MERGER_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_RECORD_MERGER_H_

#include <cstdint>
#include <map>
#include <utility>

#include "analyzer/model/facts/event.h"

namespace gordian::model {

class RecordMerger {
 public:
  // Hands over `record` and all that it completes, in order, to sink(const CallRecord&).
  template <typename Sink>
  void Add(const CallRecord& record, Sink&& sink) {
    if (record.order > next_) {
      waiting_.emplace(record.order, record);
      return;
    }
    sink(record);  // in order, or one that was given up for lost
    if (record.order == next_) ++next_;
    Drain(sink);
  }

  // All that was published before the round has arrived. A thread may have taken its number and not
  // published yet, so a hole is given up for lost only at the second round that meets it (`all`: at
  // once, for a process that has ended): all holes below the last record that the round before saw.
  template <typename Sink>
  void AtRound(bool all, Sink&& sink) {
    while (!waiting_.empty() && (all || waiting_.begin()->first <= seen_to_)) {
      lost_ += waiting_.begin()->first - next_;
      next_ = waiting_.begin()->first;
      Drain(sink);
    }
    seen_to_ = waiting_.empty() ? 0 : waiting_.rbegin()->first;
  }

  bool incomplete() const { return !waiting_.empty(); }
  uint64_t lost() const { return lost_; }

 private:
  template <typename Sink>
  void Drain(Sink&& sink) {
    while (!waiting_.empty() && waiting_.begin()->first <= next_) {
      sink(waiting_.begin()->second);
      if (waiting_.begin()->first == next_) ++next_;
      waiting_.erase(waiting_.begin());
    }
  }

  std::multimap<uint64_t, CallRecord> waiting_;
  uint64_t next_ = 1;
  uint64_t seen_to_ = 0;  // the last record that waited at the previous round
  uint64_t lost_ = 0;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_RECORD_MERGER_H_
