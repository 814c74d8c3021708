// Turns a ring file's state block (proto/ring/state_block.h) into the message that the collector
// sends.
#ifndef GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_
#define GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_

#include <cstdint>
#include <vector>

#include "collector/rings/ring_file.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/layout.h"

namespace gordian::collector {

// Reads one file's state block, and remembers which signatures it has sent so that later rounds do
// not repeat them. Not thread-safe.
class StateBlockReader {
 public:
  // Everything but the calls that threads are in. `all`: repeat signatures that earlier reads gave.
  // Returns false, with `out` unfinished, when the file was cut.
  bool Read(RingFile* file, bool all, v1::StateBlock* out);

  // Whose signals a slot counts; comm 0 if it counts something else.
  struct Line {
    uint32_t comm = 0;
    int32_t peer = -1;
    ring::SignalChannel channel{};
  };

 private:
  struct Sent {
    uint32_t comm = 0;
    uint64_t next = 0;
    uint64_t hash = 0;
  };
  bool ReadNumbers(RingFile* file, const ring::Header& header, bool all, v1::StateBlock* out);

  std::vector<Sent> sent_;   // by slot
  std::vector<Line> lines_;  // by slot, as read last
};

// A thread's copy of it; any bytes.
void FillDetail(const ring::CallDetail& detail, v1::CallDetail* out);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_
