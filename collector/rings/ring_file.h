// Reads one process's ring file (proto/ring/layout.h) as untrusted memory: other processes may
// change it, or cut it short, at any moment.
//
// Rules of every access:
//   - Open checks offsets and counts once against the file's size and copies them to our own
//     memory; RingFile ignores later changes of the layout. The few that it reads again (a thread's
//     ring, the numbers of used slots) it copies first and then checks.
//   - It loads and stores changing fields atomically, copies records before it looks at them, and
//     reads a thread's call fields under their sequence lock with a bounded number of tries.
//   - The file may be truncated under the mapping; touching a page that is gone raises SIGBUS.
//     fstat before each access cannot exclude that (the file may be cut in between), and
//     pread/pwrite give no atomic 8-byte access, which ring_tail needs (a torn tail would let the
//     writer overwrite records before the collector reads them). So every access runs under a
//     guard: a SIGBUS within the mapping, and only there, ends the access with `false` instead of
//     the program. It costs no system call.
//
// Not thread-safe; different files may be used by different threads.
#ifndef GORDIAN_COLLECTOR_RINGS_RING_FILE_H_
#define GORDIAN_COLLECTOR_RINGS_RING_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/ring/layout.h"
#include "proto/ring/record.h"

namespace gordian::collector {

// No process counts so far.
inline constexpr uint64_t kMostCounted = 1ull << 48;

class RingFile {
 public:
  // Errors: cannot be opened (a link, not ours, gone), is no ring file, is of another ABI version.
  static StatusOr<std::unique_ptr<RingFile>> Open(const std::string& path);
  // The same for a file that is open for reading and writing already; `fd` is taken in any case.
  static StatusOr<std::unique_ptr<RingFile>> Adopt(int fd, const std::string& path);
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  // The header as it was on Open. Its constant part is what to use; for the rest call ReadHeader.
  const ring::Header& header() const { return header_; }
  const std::string& path() const { return path_; }

  // Whether an access met a hole: the file was cut. From then on all reads return false.
  bool broken() const { return broken_; }
  // Whether a read met what no shim writes: another process has written to the file, and nothing in
  // it can be relied on any more. From then on ReadHeader returns false.
  bool damaged() const { return damaged_; }
  bool usable() const { return !broken_ && !damaged_; }

  // The changing part, now. The numbers of used slots are cut to what the file has room for. False:
  // *out is all zeros.
  bool ReadHeader(ring::Header* out);

  // A copy of a slot. `index` must be below the max_* of header().
  // Thread slots: `ring_head` is loaded first, then everything else; the call fields are consistent
  // if *consistent comes back true (a writer that died, or lies, can hold its lock for ever).
  bool ReadThread(uint32_t index, ring::ThreadSlot* out, bool* consistent);
  bool ReadStream(uint32_t index, ring::StreamSlot* out);
  bool ReadComm(uint32_t index, ring::CommSlot* out);
  // As ReadThread: *consistent, if the slot came to rest.
  bool ReadNumbers(uint32_t index, ring::NumberSlot* out, bool* consistent);
  // The entries of a stream's queue that may be unfinished, oldest first, and its gap. *whole: none
  // is missing because it was being written, and the queue makes sense.
  struct Pending {
    std::vector<ring::PendingOperation> operations;
    uint64_t gap_last = 0;
    bool whole = false;
  };
  bool ReadPending(uint64_t offset, Pending* out);
  // All used slots of a kind; slots that are free (id 0) are left out.
  bool ReadStreams(uint32_t used, std::vector<ring::StreamSlot>* out);
  bool ReadComms(uint32_t used, std::vector<ring::CommSlot>* out);

  // Only ring_head, then the fields of the ring itself: what draining needs. Cheap.
  struct RingPosition {
    uint32_t tid = 0;
    uint32_t generation = 0;
    uint64_t head = 0;
    uint64_t offset = 0;
    uint64_t slots = 0;
    uint64_t lost = 0;
  };
  bool ReadPosition(uint32_t index, RingPosition* out);

  // Outermost NCCL calls that all threads so far have entered. 0 when the file cannot be read.
  uint64_t NcclCalls();

  // Whether a ring lies within the file, has a power of two of slots and is aligned.
  bool ValidRing(uint64_t offset, uint64_t slots) const;

  // Copies records [first, first + count) of a valid ring; count <= slots.
  bool ReadRecords(uint64_t offset, uint64_t slots, uint64_t first, std::span<ring::Record> out);

  // Says what has been consumed: the writer may use those slots again.
  bool StoreTail(uint32_t index, uint64_t tail);

  // Adds 1 to round_request, wakes the watcher, and gives the new value. The value is ours alone.
  bool RaiseRound(uint32_t* request);

 private:
  RingFile(int fd, std::string path, uint64_t bytes, void* base);
  Status CheckHeader();
  template <typename Access>
  bool Guarded(Access&& access);

  const int fd_;
  const std::string path_;
  const uint64_t bytes_;  // mapped; a multiple of nothing in particular
  unsigned char* const base_;
  ring::Header header_{};
  bool broken_ = false;
  bool damaged_ = false;
  uint32_t round_request_ = 0;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_RING_FILE_H_
