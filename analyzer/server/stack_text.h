// Folded stacks as lines of text.
#ifndef GORDIAN_ANALYZER_SERVER_STACK_TEXT_H_
#define GORDIAN_ANALYZER_SERVER_STACK_TEXT_H_

#include <string>
#include <vector>

#include "analyzer/graph/verdict.h"

namespace gordian::server {

// "train.py:88 step()", "train.cc:12 Step()", "cudaStreamSynchronize() in libcudart.so.13", "?".
// `whole_path`: of source files.
std::string FrameText(const graph::StackFrame& frame, bool whole_path);

// For a terminal: the first few stacks, and of each what the program called and who called that.
std::vector<std::string> StacksInShort(const std::vector<graph::FoldedStack>& stacks);

// Everything.
std::vector<std::string> StacksInFull(const std::vector<graph::FoldedStack>& stacks);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_STACK_TEXT_H_
