// The batches of a FleetLink on their way: which is next, which may be forgotten. fleet_link.h says
// where they are kept. Knows the disk, but no stream. Not thread-safe.
#ifndef GORDIAN_COLLECTOR_OUTGOING_H_
#define GORDIAN_COLLECTOR_OUTGOING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "collector/spool.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

class Outgoing {
 public:
  struct Options {
    std::string spool_dir;  // empty: none
    uint64_t spool_bytes = 0;
    uint64_t window_bytes = 0;
    uint64_t memory_bytes = 0;
  };
  explicit Outgoing(const Options& options);

  using Message = std::shared_ptr<const v1::ToAnalyzer>;

  // Takes a batch and numbers it. `online`: it may go out soon, so that the disk is not needed
  // while there is room in the window.
  void Add(v1::EventBatch&& batch, bool online);
  bool Full() const;
  // Nothing waits that is not in the window.
  bool Direct() const { return spool_.waiting() == 0 && tail_.empty(); }
  // The disk was full: see whether it still is.
  void TryDiskAgain();

  // The next one to be sent; null: none, or the window is full. Batches that the disk does not give
  // back are left out; TakeProblem() then names them. Were they the last, an empty one is added
  // behind them, so that the analyzer sees the gap.
  Message Next();
  // Everything up to `number` has arrived.
  void Acknowledge(uint64_t number);
  // A new stream: what has not arrived is sent again.
  void Rewind() { next_ = 0; }

  // Writes what is only in memory to the disk, so that the folder holds all that has not arrived.
  Status Spill();

  uint64_t taken() const { return taken_; }
  uint64_t acked() const { return acked_; }
  bool AllArrived() const { return window_.empty() && spool_.waiting() == 0 && tail_.empty(); }
  uint64_t spooled_bytes() const { return spool_.bytes(); }
  // The last thing that went wrong with the disk; taken away by this call.
  std::optional<std::string> TakeProblem();

 private:
  struct Item {
    Message message;
    uint64_t number = 0;
    uint64_t bytes = 0;
    bool on_disk = false;
  };
  static Item MakeItem(v1::EventBatch&& batch, bool on_disk);

  const Options options_;
  Spool spool_;
  std::deque<Item> window_;  // oldest; up to next_ it was sent on this stream
  size_t next_ = 0;
  uint64_t window_bytes_ = 0;
  std::deque<Item> tail_;  // newest; behind the spool
  uint64_t tail_bytes_ = 0;
  uint64_t taken_ = 0, acked_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_OUTGOING_H_
