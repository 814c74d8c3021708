// Makes a configuration from a recorded job: its communicators as groups, its collectives as
// counts, and the order in which each process called them.
#ifndef GORDIAN_CLI_SIMULATE_SIMULATE_TRACE_H_
#define GORDIAN_CLI_SIMULATE_SIMULATE_TRACE_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "simulator/config.h"

namespace gordian::cli {

struct TracedJob {
  simulator::Config config;         // complete but for the model and its rates
  std::vector<std::string> groups;  // the communicators' names, or numbers
  std::vector<uint32_t> pids;       // of the processes that are GPUs 0, 1, ...
  std::vector<std::string> notes;   // one line for each kind of call left out
};

// `path` is a session or a trace. Leaves out point-to-point operations, communicators of one
// process, and processes without collectives; when members called different numbers of collectives,
// counts those that all called. Errors: unreadable input; no collective remains.
StatusOr<TracedJob> JobFromTrace(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SIMULATE_SIMULATE_TRACE_H_
