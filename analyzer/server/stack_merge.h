// From the stacks that collectors read to what people look at: native and Python frames of a thread
// put into one stack, the frames that every thread has cut off, and equal stacks folded.
#ifndef GORDIAN_ANALYZER_SERVER_STACK_MERGE_H_
#define GORDIAN_ANALYZER_SERVER_STACK_MERGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/graph/verdict.h"
#include "gordian/v1/event.pb.h"

namespace gordian::server {

// One stack, innermost first. Python frames take the places of the interpreter's own frames; where
// these do not tell which belong together, they stand between what the interpreter called and what
// called it. Frames of the start of a process or thread are cut off.
std::vector<graph::StackFrame> MergeFrames(const v1::ThreadStack& thread,
                                           const std::string& python_module);

struct ProcessStacks {
  std::vector<int> ranks;  // of the process; empty: it is none
  uint32_t pid = 0;
  const v1::StacksTaken* taken = nullptr;
};

// Threads without any frame are left out. Main threads and those in a call of NCCL or CUDA come
// before others, of these those of the `first` ranks, then by rank.
std::vector<graph::FoldedStack> FoldStacks(const std::vector<ProcessStacks>& processes,
                                           const std::vector<int>& first);

// What could not be read, one line each, equal ones of several ranks folded.
std::vector<std::string> StacksNotVisible(const std::vector<ProcessStacks>& processes);

// "0-3,5"; "" when empty. `ranks` ascend.
std::string FoldedRanks(const std::vector<int>& ranks);
// "rank 4", "ranks 0-3,5", "pid 4711", "3 processes".
std::string WhoseStack(const graph::FoldedStack& stack);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_STACK_MERGE_H_
