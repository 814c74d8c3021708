// Renders folded stacks as lines of text.
#ifndef GORDIAN_ANALYZER_STACKS_STACK_TEXT_H_
#define GORDIAN_ANALYZER_STACKS_STACK_TEXT_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::analyzer {

// "train.py:88 step()", "train.cc:12 Step()", "cudaStreamSynchronize() in libcudart.so.13", "?".
// `whole_path` applies to source files.
std::string FrameText(const model::StackFrame& frame, bool whole_path);

// For a terminal: the first few stacks, each with what the program called and its caller.
std::vector<std::string> StacksInShort(const std::vector<model::FoldedStack>& stacks);

// All stacks, in full.
std::vector<std::string> StacksInFull(const std::vector<model::FoldedStack>& stacks);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_STACK_TEXT_H_
