// Where this machine and this installation have what verifying a replay takes.
#ifndef GORDIAN_CLI_VERIFY_TOOLS_H_
#define GORDIAN_CLI_VERIFY_TOOLS_H_

#include "replayer/verify/verifier.h"

namespace gordian::cli {

// The compiler that $CXX names, the headers of CUDA and NCCL, the emulator, and gordian itself. The
// caller sets `stopped`.
replayer::VerifyTools FindVerifyTools();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_VERIFY_TOOLS_H_
