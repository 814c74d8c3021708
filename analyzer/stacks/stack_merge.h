// Turns collected stacks into readable ones: merges native and Python frames of a thread, removes
// the frames that every thread has, and folds equal stacks.
#ifndef GORDIAN_ANALYZER_STACKS_STACK_MERGE_H_
#define GORDIAN_ANALYZER_STACKS_STACK_MERGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "gordian/v1/event.pb.h"

namespace gordian::analyzer {

// True for a frame of the system's or the GPU's libraries, or of their headers: interesting is that
// the program called it, not what happens inside.
bool IsLibraryFrame(const model::StackFrame& frame);

// Returns one stack, innermost first. Python frames replace the interpreter's own frames; if it is
// unclear which belong together, they stand between what the interpreter called and what called it.
// Removes the frames in which a process or thread starts.
std::vector<model::StackFrame> MergeFrames(const v1::ThreadStack& thread,
                                           const std::string& python_module);

struct ProcessStacks {
  std::vector<int> ranks;  // of the process; empty: it has none
  uint32_t pid = 0;
  const v1::StacksTaken* taken = nullptr;
};

// Omits threads without frames, and the emulator's own. Sorts main threads and those in NCCL or CUDA
// calls first, among them those of the `first` ranks, then by rank.
std::vector<model::FoldedStack> FoldStacks(const std::vector<ProcessStacks>& processes,
                                           const std::vector<int>& first);

// What collectors could not read, one line each, folded over ranks.
std::vector<std::string> StacksNotVisible(const std::vector<ProcessStacks>& processes);

// "0-3,5"; "" when empty. `ranks` ascend.
std::string FoldedRanks(const std::vector<int>& ranks);
// "rank 4", "ranks 0-3,5", "pid 4711", "3 processes".
std::string WhoseStack(const model::FoldedStack& stack);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_STACK_MERGE_H_
