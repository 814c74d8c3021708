// Compiles a replay and runs it under `gordian run`, to see whether it hangs as the recorded job
// did: it must leave with 42, and be told as a hang of the same signature.
//
// Processes and threads: each run is a process group of its own, killed when it takes too long, and
// has a folder of its own, removed at the end. Blocking; not thread-safe in that it waits for its
// children by pid.
#ifndef GORDIAN_REPLAYER_VERIFIER_H_
#define GORDIAN_REPLAYER_VERIFIER_H_

#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "replayer/schedule.h"

namespace gordian::replayer {

inline constexpr int kReproduced = 42;

struct VerifyTools {
  std::string compiler = "g++";
  std::vector<std::string> include_dirs;  // of cuda_runtime.h and nccl.h
  std::string library_dir;                // of libnccl.so and libcudart.so: the emulator's
  std::string gordian;                    // the executable
  double patience_s = 2.5;                // of the replay; above suspect_after_s
  double suspect_after_s = 1;
  double limit_s = 60;            // for one compilation or run
  int at_once = 5;                // they mostly wait
  std::function<bool()> stopped;  // may be empty; once it says so, all is killed and removed, and
                                  // the error is kUnavailable
};

struct VerifyRun {
  int exit_code = -1;   // 128 + signal; -1: it took too long
  Signature signature;  // as gordian told it
  std::string output;   // the last of what it said
};

struct Verified {
  std::vector<VerifyRun> runs;
  int hung = 0;  // left with kReproduced
  int same = 0;  // ... and had the wanted signature
};

// Makes `binary` of the program at `source`. Errors: kInvalidArgument with what the compiler said;
// the compiler is not there.
Status CompileReplay(const std::string& source, const std::string& binary,
                     const VerifyTools& tools);

// Runs it `count` times. `progress` (may be empty) is called after each. Errors: no folder, no
// process.
StatusOr<Verified> VerifyReplay(const std::string& binary, const Signature& wanted, int count,
                                bool free_running, const VerifyTools& tools,
                                const std::function<void(int done)>& progress);

// "5 of 5 runs under the emulator hung and were told as deadlock (...)".
std::string Describe(const Verified& verified, const Signature& wanted);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_VERIFIER_H_
