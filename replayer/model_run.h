// What becomes of a schedule, without a process: its calls are carried out one by one by the rules
// of CUDA and NCCL until nothing moves any more, and the wait model (analyzer/graph) is told what a
// shim would have recorded of that, and asked for its verdict. So the model that judges a candidate
// is the one that judged the job, and the only thing written down twice is what calls do.
//
// One order of all that could happen is taken, the same each time: gates are what forces the
// recorded one. `Turns` give others. Sends count as buffered, kernels as ending. What a mismatched
// operation does is what was measured on two H200s (docs/emulator-truth.md). A rank whose threads
// have come to their ends waits for its device and exits with 0, as written replays do.
//
// Pure: no I/O, clock or thread. Never throws on a schedule in which Check() finds nothing.
#ifndef GORDIAN_REPLAYER_MODEL_RUN_H_
#define GORDIAN_REPLAYER_MODEL_RUN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

struct ModelRun {
  // Something is left that cannot move, and the verdict is about that. What only sleeps or computes
  // for ever, and keeps nobody waiting, does not hang.
  bool hangs = false;
  Signature signature;  // also of what does not hang: "finished", "healthy"
  std::string check;    // "communicator-order-cycle"
  // What holds back those that are waited for in a cycle, each kind once: "on the same stream";
  // "not called" where nobody has come so far as to make the call, and somebody might say that it
  // never would have been made.
  std::vector<std::string> because;
  std::string summary;  // one line; ranks are places in Schedule::ranks
  // The calls that threads are in and cannot return from, or stop at, ascending.
  std::vector<OpId> standing;
};

// Who of those that could go on does so first, again and again: bit 0: the last rank, not the
// first; bit 1 + r: of rank r the last thread. What nothing forces may differ between them.
using Turns = uint64_t;
inline constexpr Turns kFirstFirst = 0;
constexpr Turns LastThreadFirst(size_t rank) { return Turns{2} << (rank % 63); }

ModelRun RunModel(const Schedule& schedule, Turns turns = kFirstFirst);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_MODEL_RUN_H_
