// A schedule as one C++17 program: it forks its ranks, needs nccl.h and the CUDA runtime and
// nothing else, and is meant to be read. What it prints and how it leaves: docs/replay.md.
#ifndef GORDIAN_REPLAYER_CXX_WRITER_H_
#define GORDIAN_REPLAYER_CXX_WRITER_H_

#include <string>

#include "replayer/schedule.h"

namespace gordian::replayer {

struct CxxOptions {
  std::string file = "replay.cc";  // as its header names it
  std::string fix;                 // one line: what is changed, so that it ends; empty: it hangs
  std::string verified;  // one line, "2 of 2 runs under the emulator hung ..."; empty: not verified
  bool benchmark = false;  // what is in it ends: it is repeated, timed, and its results are
                           // checked; one thread a rank, no gates
};

// Of a schedule in which Check() finds nothing.
std::string WriteCxx(const Schedule& schedule, const CxxOptions& options);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_CXX_WRITER_H_
