// Profiler plugins, as NCCL loads and calls them: NCCL_PROFILER_PLUGIN names a library, of which
// the newest table that both know is taken. Written after NCCL 2.28.9 (src/plugin/profiler.cc, and
// where src/group.cc and src/enqueue.cc call it), which knows tables up to version 5;
// GORDIAN_EMU_NCCL_PROFILER says another, so that what plugins offer to later releases can be run.
//
// Not made, whatever the plugin asks for: events of proxies, network plugins and the kernels'
// channels, and, as long as a graph is not launched, those of what was captured.
//
// Threads: any; what is about the open group is of the calling thread.
#ifndef GORDIAN_EMULATOR_NCCL_PROFILER_H_
#define GORDIAN_EMULATOR_NCCL_PROFILER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/nccl/operation.h"

namespace gordian::emu::nccl {

// What the plugin knows of a communicator.
class ProfiledComm {
 public:
  // When the communicator is made; loads the plugin at the first one.
  void Start(uint64_t hash, const std::string& name, int nranks, int rank);
  // When it is no more. Once.
  void Finish();

  // The call of an operation, at `depth` of groups (1: in no group of the application).
  void OnCall(Operation* operation, int depth);
  // Around the launch of a kernel that does the operations; `captured`: into a graph.
  void OnLaunch(const Operation& first, void** handle);
  void OnLaunched(const std::vector<Operation>& operations, bool captured, void* handle);

 private:
  void OnTask(const Operation& operation, void* group);

  void* context_ = nullptr;
  std::array<uint64_t, 32> numbers_ = {};  // by kind
};

// The application called ncclGroupEnd.
void ProfileGroupEnd();
// The thread's group, or its only call, has been dealt with.
void ProfileGroupStop();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_PROFILER_H_
