// The batches that a FleetLink has taken: says which to send next and which to forget. fleet_link.h
// describes the places. Uses the disk, but no stream. Not thread-safe.
#ifndef GORDIAN_COLLECTOR_UPLINK_OUTGOING_H_
#define GORDIAN_COLLECTOR_UPLINK_OUTGOING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "collector/uplink/spool.h"
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

  // Takes and numbers a batch. `online`: the batch may go out soon, so the window holds it if there
  // is room, and the disk is not needed.
  void Add(v1::EventBatch&& batch, bool online);
  bool Full() const;
  // True if no batch waits outside the window.
  bool Direct() const { return spool_.waiting() == 0 && tail_.empty(); }
  // Tries a full disk again.
  void TryDiskAgain();

  // Returns the next batch to send; null if there is none or the window is full. Skips batches that
  // the disk cannot give back, and names them in TakeProblem(). If those were the last, adds an
  // empty batch so that the analyzer sees the gap.
  Message Next();
  // Forgets all batches up to `number`: they have arrived.
  void Acknowledge(uint64_t number);
  // For a new stream: sends again what has not arrived.
  void Rewind() { next_ = 0; }

  // Writes the batches that are only in memory to disk, so that the folder holds all that have not
  // arrived.
  Status Spill();

  uint64_t taken() const { return taken_; }
  uint64_t acked() const { return acked_; }
  bool AllArrived() const { return window_.empty() && spool_.waiting() == 0 && tail_.empty(); }
  uint64_t spooled_bytes() const { return spool_.bytes(); }
  // Takes the last problem with the disk.
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
  std::deque<Item> window_;  // oldest; those before next_ were sent on this stream
  size_t next_ = 0;
  uint64_t window_bytes_ = 0;
  std::deque<Item> tail_;  // newest; after the spool
  uint64_t tail_bytes_ = 0;
  uint64_t taken_ = 0, acked_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_OUTGOING_H_
