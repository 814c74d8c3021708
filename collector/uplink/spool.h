// Keeps batches on disk while the analyzer is away: a queue in a folder, first in, first out.
//
// The folder holds segments, <number of their first batch>.gspool: the bytes "GSPOOL1\n", then one
// entry per batch, as in a trace: the little-endian 4-byte length of a zstd frame, its 4-byte
// CRC-32, and the frame, which holds one serialised EventBatch. An entry that was written whole
// stays readable whatever happens to later ones.
#ifndef GORDIAN_COLLECTOR_UPLINK_SPOOL_H_
#define GORDIAN_COLLECTOR_UPLINK_SPOOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/owned_folder.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

// Not thread-safe.
class Spool {
 public:
  struct Options {
    std::string folder;                    // made by the first Append, its parents at once
    uint64_t max_bytes = 4096ull << 20;    // all segments together
    uint64_t segment_bytes = 16ull << 20;  // a segment is removed as a whole
  };
  explicit Spool(Options options);
  ~Spool();  // closes; the files stay
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Appends a batch, whose number must exceed all earlier ones; a gap in numbers begins a new
  // segment. After an error (a full disk) the earlier batches are intact, and the next try may
  // succeed.
  Status Append(const v1::EventBatch& batch);

  // True if max_bytes is reached, or the last Append failed.
  bool Full() const { return bytes_ + kReserve > options_.max_bytes || failing_; }
  // Allows one more try after a failed Append.
  void TryAgain() { failing_ = false; }

  // Returns the oldest batch that it has not returned yet; false if none is left. Error: the rest
  // of a segment cannot be read; the error names it, and the next call continues with the next
  // segment.
  StatusOr<bool> Next(v1::EventBatch* batch);

  // Forgets batches up to this number: removes segments that lie wholly below it and were read.
  void Release(uint64_t number);

  uint64_t waiting() const { return waiting_; }  // batches that Next has not returned
  uint64_t bytes() const { return bytes_; }      // on disk
  uint64_t last_number() const { return last_number_; }

  // An entry may exceed what Full() promised by at most so much.
  static constexpr uint64_t kReserve = 896u << 10;

 private:
  struct Segment {
    std::string name;  // in folder_
    uint64_t last_number = 0;
    uint64_t bytes = 0;
    uint64_t batches = 0;  // not returned by Next yet
  };
  Status OpenFolder();
  Status OpenSegment(uint64_t first_number);
  std::string PathOf(const Segment& segment) const { return options_.folder + "/" + segment.name; }
  void CloseWriter();
  void CloseReader();

  const Options options_;
  std::optional<OwnedFolder> above_;   // the folder that the spool's lies in
  Status no_folder_;                   // why there is none
  std::optional<OwnedFolder> folder_;  // while there are segments
  std::deque<Segment> segments_;       // oldest first; Append writes the last one
  size_t reading_ = 0;                 // index of the segment that Next reads
  int write_fd_ = -1;
  int read_fd_ = -1;
  uint64_t read_offset_ = 0;
  uint64_t bytes_ = 0;
  uint64_t waiting_ = 0;
  uint64_t last_number_ = 0;
  bool failing_ = false;
};

// The result of ReadSpool.
struct SpoolContents {
  uint64_t batches = 0;       // handed over
  uint64_t first_number = 0;  // 0: none
  uint64_t last_number = 0;
  bool whole = true;    // every segment was readable to its end, with no gap
  std::string problem;  // one line: which segment ended after how many batches, and why
};

// Reads the rest of a spool, oldest batch first, each segment up to its last good batch. Errors: no
// such folder.
StatusOr<SpoolContents> ReadSpool(const std::string& folder,
                                  const std::function<void(v1::EventBatch&&)>& take);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_SPOOL_H_
