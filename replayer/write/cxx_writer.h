// Writes a schedule as one readable C++17 program, which forks its ranks and needs only nccl.h and
// the CUDA runtime. docs/replay.md describes its output and exit codes.
#ifndef GORDIAN_REPLAYER_WRITE_CXX_WRITER_H_
#define GORDIAN_REPLAYER_WRITE_CXX_WRITER_H_

#include <string>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct CxxOptions {
  std::string file = "replay.cc";  // as its header names it
  std::string fix;                 // one line: the change with which it ends; empty: it hangs
  std::string verified;  // one line, "2 of 2 runs under the emulator hung ..."; empty: not verified
  bool benchmark = false;  // repeats the schedule, which ends, times it, and checks its
                           // results; one thread a rank, no gates
};

// `schedule` must pass Check().
std::string WriteCxx(const Schedule& schedule, const CxxOptions& options);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_CXX_WRITER_H_
