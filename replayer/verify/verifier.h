// Compiles a replay and runs it under `gordian run`, to see whether it hangs as the recorded job
// did: it must exit with 42, and gordian's verdict must have the same signature.
//
// Processes and threads: each run has its own process group, killed when it takes too long, and its
// own folder, removed at the end. Blocks the caller. Not thread-safe: it waits for its children by
// pid.
#ifndef GORDIAN_REPLAYER_VERIFY_VERIFIER_H_
#define GORDIAN_REPLAYER_VERIFY_VERIFIER_H_

#include <functional>
#include <string>
#include <vector>

#include "common/owned_folder.h"
#include "common/status.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

inline constexpr int kReproduced = 42;

struct VerifyTools {
  std::string compiler = "g++";
  std::vector<std::string> include_dirs;  // of cuda_runtime.h and nccl.h
  std::string library_dir;                // of libnccl.so and libcudart.so of the emulator
  std::string gordian;                    // the executable
  double patience_s = 2.5;                // the replay's --patience; above suspect_after_s
  double suspect_after_s = 1;
  double limit_s = 60;            // for one compilation or run
  int at_once = 5;                // runs mostly wait
  std::function<bool()> stopped;  // may be empty; once it says so, all is killed and removed, and
                                  // the error is kUnavailable
};

struct VerifyRun {
  int exit_code = -1;   // 128 + signal; -1: took too long
  Signature signature;  // by gordian's verdict
  bool proven = false;  // the verdict is confirmed
  std::string output;   // the end of its output
};

struct Verified {
  std::vector<VerifyRun> runs;
  int hung = 0;  // exited with kReproduced
  int same = 0;  // ... and had the wanted signature
};

// Compiles the program `source` into `binary`: names in `folder`, in which the compiler runs. Errors:
// kInvalidArgument with the compiler's output; the compiler is missing.
Status CompileReplay(const OwnedFolder& folder, const std::string& source,
                     const std::string& binary, const VerifyTools& tools);

// Runs it `count` times, calling `progress` (may be empty) after each. After a run that hung with
// another signature and no proof it makes that run once more, with four times the patience; of the
// two, only the second counts. Errors: no folder, no process.
StatusOr<Verified> VerifyReplay(const std::string& binary, const Signature& wanted, int count,
                                bool free_running, const VerifyTools& tools,
                                const std::function<void(int done)>& progress);

// "5 of 5 runs under the emulator hung, and gordian's verdict on 5 was deadlock (...)".
std::string Describe(const Verified& verified, const Signature& wanted);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_VERIFY_VERIFIER_H_
