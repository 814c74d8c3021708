// A communicator's settings: ncclConfig_t, as far as the caller's version of it has fields, then
// the environment, which takes precedence as in NCCL.
#ifndef GORDIAN_EMULATOR_NCCL_API_CONFIG_H_
#define GORDIAN_EMULATOR_NCCL_API_CONFIG_H_

#include <climits>
#include <string>

#include "emulator/nccl/api/nccl_header.h"

namespace gordian::emu::nccl {

struct CommConfig {
  bool blocking = true;
  // How many SMs an operation may take; INT_MAX: as many as its size needs.
  int min_ctas = 1;
  int max_ctas = INT_MAX;
  std::string name;  // commName
};

// Updates `*resolved`, which holds the defaults or the parent's settings, from `config` (may be
// null). Errors: ncclInvalidArgument for a value that NCCL refuses, ncclInvalidUsage for an unknown
// network. Only checks fields without effect here (clusters, traffic class, policies).
ncclResult_t ReadConfig(const ncclConfig_t* config, CommConfig* resolved);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_CONFIG_H_
