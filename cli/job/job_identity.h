// Names this job and this node for an analyzer of many: from flags, then GORDIAN_* variables, then
// the launcher's variables.
#ifndef GORDIAN_CLI_JOB_JOB_IDENTITY_H_
#define GORDIAN_CLI_JOB_JOB_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/config.h"
#include "common/status.h"

namespace gordian::cli {

struct JobIdentity {
  std::string job;
  bool named = false;  // by a person or a launcher
  std::string node;
  uint32_t nodes_expected = 0;  // 0: not known
  int32_t node_rank = -1;       // -1: not known
  // A launcher started several gordians, of which this is number `node_rank`.
  bool one_of_tasks = false;
};

struct JobIdentityFlags {
  std::optional<std::string> job, node, nodes;
};

// Pure. `host`, `pid` and `time_ns` make up the name of a job that has none. Errors name the flag
// or variable.
StatusOr<JobIdentity> IdentifyJob(const JobIdentityFlags& flags, const Environment& environment,
                                  const std::string& host, int pid, uint64_t time_ns);

// "10.0.0.1:7777", "head:7777", "[::1]:7777". Errors name what is wrong.
Status CheckAddress(std::string_view name, std::string_view address, bool zero_port_allowed);

// True if such an address can only be this machine's.
bool IsLoopback(std::string_view address);
// Whether verdicts of the job's analyzer may end the job.
bool TrustsAnalyzer(const RunConfig& config);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_JOB_IDENTITY_H_
