// Batches on disk while the analyzer is away: a queue in a folder, first in first out.
//
// The folder holds segments, <number of their first batch>.gspool: the bytes "GSPOOL1\n", then one
// entry a batch, as in a trace: a 4-byte little-endian length of its zstd frame, a 4-byte CRC-32 of
// the frame, the frame, which holds one serialised EventBatch. What was written whole stays
// readable whatever happens behind it.
#ifndef GORDIAN_COLLECTOR_SPOOL_H_
#define GORDIAN_COLLECTOR_SPOOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

// Not thread-safe.
class Spool {
 public:
  struct Options {
    std::string folder;                    // made, with those above it, when the first batch comes
    uint64_t max_bytes = 4096ull << 20;    // of all segments together
    uint64_t segment_bytes = 16ull << 20;  // a segment is given back as a whole
  };
  explicit Spool(Options options);
  ~Spool();  // closes; files stay
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Adds a batch behind the others. Its number must be above theirs; one that is not the next
  // begins a segment. After an error (a full disk) what was there stays as it was, and the next try
  // may succeed.
  Status Append(const v1::EventBatch& batch);

  // More would go beyond max_bytes, or the last Append failed: the disk is full.
  bool Full() const { return bytes_ + kReserve > options_.max_bytes || failing_; }
  // A try after `failing_`.
  void TryAgain() { failing_ = false; }

  // The oldest batch that was not taken yet. False: none is left. Not ok: what comes next in its
  // segment cannot be read back; the rest of that segment is given up and named, and the next call
  // goes on with the one behind it.
  StatusOr<bool> Next(v1::EventBatch* batch);

  // Everything up to this number may be forgotten: whole segments that were taken and are below go.
  void Release(uint64_t number);

  uint64_t waiting() const { return waiting_; }  // batches that Next has still to give
  uint64_t bytes() const { return bytes_; }      // on disk
  uint64_t last_number() const { return last_number_; }

  // An entry is at most so much larger than what Full() has promised.
  static constexpr uint64_t kReserve = 896u << 10;

 private:
  struct Segment {
    std::string path;
    uint64_t last_number = 0;
    uint64_t bytes = 0;
    uint64_t batches = 0;  // not taken yet
  };
  Status OpenSegment(uint64_t first_number);
  void CloseWriter();
  void CloseReader();

  const Options options_;
  std::deque<Segment> segments_;  // oldest first; the last one is written
  size_t reading_ = 0;            // index of the segment that Next reads
  int write_fd_ = -1;
  int read_fd_ = -1;
  uint64_t read_offset_ = 0;
  uint64_t bytes_ = 0;
  uint64_t waiting_ = 0;
  uint64_t last_number_ = 0;
  bool failing_ = false;
};

// What ReadSpool found.
struct SpoolContents {
  uint64_t batches = 0;       // handed over
  uint64_t first_number = 0;  // 0: none
  uint64_t last_number = 0;
  bool whole = true;    // every segment could be read to its end, without a gap between them
  std::string problem;  // one line: which segment ended after how many batches, and why
};

// Reads all that is left of a spool, oldest first, each segment to its last good batch. Errors: no
// such folder.
StatusOr<SpoolContents> ReadSpool(const std::string& folder,
                                  const std::function<void(v1::EventBatch&&)>& take);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_SPOOL_H_
