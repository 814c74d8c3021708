// What `gordian run --collectives=preemptive` does around its job: names of shared memory, and how
// much of the job went to the runtime (docs/runtime.md).
#ifndef GORDIAN_CLI_COLLECTIVES_H_
#define GORDIAN_CLI_COLLECTIVES_H_

#include <cstdint>
#include <string>

namespace gordian::cli {

// Letters and digits that stand for this run in the names of shared memory.
std::string SharedMemoryTag(const std::string& ring_dir);
// What processes that ended early have left behind under that tag.
void RemoveSharedMemory(const std::string& tag);

struct CollectiveCounts {
  uint64_t operations = 0, comms = 0, comms_with_nccl = 0, not_agreed = 0, own_operator = 0,
           in_graph = 0, helped = 0, registered = 0, direct = 0;
};
// Over the processes of a session; files of another size are left out.
CollectiveCounts SumCollectives(const std::string& session_dir);
// The line for people.
std::string CollectivesLine(const CollectiveCounts& counts);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_COLLECTIVES_H_
