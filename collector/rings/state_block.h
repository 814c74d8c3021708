// From a ring file's state block (proto/ring/state_block.h) to the message that travels.
#ifndef GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_
#define GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_

#include <cstdint>
#include <vector>

#include "collector/rings/ring_file.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/layout.h"

namespace gordian::collector {

// What was told of a file before, so that rounds repeat no signatures. Not thread-safe.
class StateBlockReader {
 public:
  // Everything but what threads are in. `all`: signatures too that were told before. False, with
  // `out` unfinished, when the file was cut.
  bool Read(RingFile* file, bool all, v1::StateBlock* out);

  // What a slot counts, where that is signals; comm 0 elsewhere.
  struct Line {
    uint32_t comm = 0;
    int32_t peer = -1;
    ring::SignalChannel channel{};
  };

 private:
  struct Told {
    uint32_t comm = 0;
    uint64_t next = 0;
    uint64_t hash = 0;
  };
  bool ReadNumbers(RingFile* file, const ring::Header& header, bool all, v1::StateBlock* out);

  std::vector<Told> told_;   // by slot
  std::vector<Line> lines_;  // by slot, as read last
};

// A thread's copy of it; any bytes.
void FillDetail(const ring::CallDetail& detail, v1::CallDetail* out);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_STATE_BLOCK_H_
