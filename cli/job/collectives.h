// What `gordian run --collectives=preemptive` (or --on-verdict recover) does around its job: it names and removes shared
// memory, and counts the operations that the runtime ran (docs/runtime.md).
#ifndef GORDIAN_CLI_JOB_COLLECTIVES_H_
#define GORDIAN_CLI_JOB_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::cli {

// Letters and digits that identify this run in the names of shared memory.
std::string SharedMemoryTag(const std::string& ring_dir);
// The files by which `gordian run --on-verdict recover` spoke with the shims of its job.
void RemoveRecoveryFiles(const std::string& session_dir);
// Removes the shared memory that processes left behind under that tag.
void RemoveSharedMemory(const std::string& tag);

struct CollectiveCounts {
  uint64_t operations = 0, comms = 0, comms_with_nccl = 0, not_agreed = 0, own_operator = 0,
           in_graph = 0, helped = 0, registered = 0, direct = 0, not_named = 0;
  uint64_t names_found = 0;  // a bit for each name that was asked for
  bool known = false;        // some process has counted
};
// Adds up the counts of a session's processes; skips files of another size.
CollectiveCounts SumCollectives(const std::string& session_dir);
// Formats the counts as one line for people.
std::string CollectivesLine(const CollectiveCounts& counts);
// Says which of the names no communicator had; "": each was found, or nothing is known.
std::string UnknownNamesLine(const CollectiveCounts& counts, const std::vector<std::string>& names);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_COLLECTIVES_H_
