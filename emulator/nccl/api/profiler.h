// Loads and calls profiler plugins as NCCL does: NCCL_PROFILER_PLUGIN names a library, and the
// newest table that both know is used. Written after NCCL 2.28.9 (src/plugin/profiler.cc, and its
// calls in src/group.cc and src/enqueue.cc), which knows tables up to version 5;
// GORDIAN_EMU_NCCL_PROFILER sets another version, to run what plugins offer to later releases.
//
// Never makes, whatever the plugin asks for, events of proxies, network plugins and the kernels'
// channels, nor, until a graph is launched, those of its captured operations.
//
// Threads: any; functions about the open group refer to the calling thread's.
#ifndef GORDIAN_EMULATOR_NCCL_API_PROFILER_H_
#define GORDIAN_EMULATOR_NCCL_API_PROFILER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/nccl/operation/operation.h"

namespace gordian::emu::nccl {

// A communicator in the plugin's eyes.
class ProfiledComm {
 public:
  // Call when the communicator is made; the first call loads the plugin.
  void Start(uint64_t hash, const std::string& name, int nranks, int rank);
  // Call once, when it is destroyed.
  void Finish();

  // Call for each operation, at `depth` of groups (1: in no group of the application).
  void OnCall(Operation* operation, int depth);
  // Call around the launch of a kernel for the operations; `captured`: into a graph.
  void OnLaunch(const Operation& first, void** handle);
  void OnLaunched(const std::vector<Operation>& operations, bool captured, void* handle);

 private:
  void OnTask(const Operation& operation, void* group);

  void* context_ = nullptr;
  std::array<uint64_t, 32> numbers_ = {};  // by kind
};

// Call when the application calls ncclGroupEnd.
void ProfileGroupEnd();
// Call when the thread's group, or its single call, has been processed.
void ProfileGroupStop();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_PROFILER_H_
