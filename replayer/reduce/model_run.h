// Predicts the outcome of a schedule without a process: carries out its calls by the rules of CUDA
// and NCCL until nothing moves, feeds the wait model (analyzer/model) with what a shim would have
// recorded, and asks for its verdict. So one model judges both job and candidate, and only the
// effect of calls is written down twice.
//
// Takes one of the possible orders, the same each time; gates force the recorded one, and `Turns`
// select others. Assumes that sends are buffered and kernels end. Mismatched operations behave as
// measured on two H200s (docs/emulator-truth.md). A rank whose threads have ended waits for its
// device and exits with 0, as written replays do.
//
// Pure: no I/O, clock or thread. Never throws on a schedule that passes Check().
#ifndef GORDIAN_REPLAYER_REDUCE_MODEL_RUN_H_
#define GORDIAN_REPLAYER_REDUCE_MODEL_RUN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct ModelRun {
  // Something cannot move, and the verdict is about that. A thread that only sleeps or computes for
  // ever, without others waiting for it, is no hang.
  bool hangs = false;
  Signature signature;  // "finished" or "healthy" if nothing hangs
  std::string check;    // "communicator-order-cycle"
  // What holds back the awaited ranks of a cycle, each kind once: "on the same stream"; "not
  // called" if a rank has not reached the call and might never have made it.
  std::vector<std::string> because;
  std::vector<OpId> cycle;  // the calls in which the ranks of a cycle wait
  std::string summary;      // one line; ranks are indices into Schedule::ranks
  // The calls that threads cannot return from, or stop at, ascending.
  std::vector<OpId> standing;
};

// Which of the movable threads moves first, repeatedly: bit 0: the last rank instead of the first;
// bit 1 + r: the last thread of rank r. Outcomes that nothing forces may differ between them.
using Turns = uint64_t;
inline constexpr Turns kFirstFirst = 0;
constexpr Turns LastThreadFirst(size_t rank) { return Turns{2} << (rank % 63); }

ModelRun RunModel(const Schedule& schedule, Turns turns = kFirstFirst);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_MODEL_RUN_H_
