// A configuration out of a recorded job: its communicators as groups, its collectives as counts,
// and the order in which each process called them.
#ifndef GORDIAN_CLI_SIMULATE_TRACE_H_
#define GORDIAN_CLI_SIMULATE_TRACE_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "simulator/config.h"

namespace gordian::cli {

struct TracedJob {
  simulator::Config config;         // but for the model and its rates
  std::vector<std::string> groups;  // the communicators' names, or numbers
  std::vector<uint32_t> pids;       // of the processes that are GPUs 0, 1, ...
  std::vector<std::string> notes;   // what was left out, a line each
};

// `path` is a session or a trace. Point-to-point operations, communicators of one process and
// processes without collectives are left out; of a communicator whose members called differently
// many collectives, those that all called count. Errors: cannot be read; nothing is left.
StatusOr<TracedJob> JobFromTrace(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SIMULATE_TRACE_H_
