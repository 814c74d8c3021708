// Reads Python frames of another process's threads from outside while it runs on.
//
// The memory may change during the read: the reader checks every pointer, bounds every loop, and
// gives a thread whose frames differ between two reads a note instead of a guess.
#ifndef GORDIAN_COLLECTOR_STACKS_PYTHON_STACK_H_
#define GORDIAN_COLLECTOR_STACKS_PYTHON_STACK_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gordian::collector {

struct PythonFrame {
  std::string function;  // qualified name
  std::string file;
  int line = -1;       // -1: not known
  bool entry = false;  // C code called it: outermost of its native interpreter frame
};

struct PythonStack {
  pid_t tid = 0;
  std::vector<PythonFrame> frames;  // innermost first
  std::string note;                 // why frames are missing; empty: none are
};

struct PythonStacks {
  bool has_python = false;
  std::string module;               // of the interpreter
  std::string why_not;              // why there are no stacks at all; else empty
  std::vector<PythonStack> stacks;  // of those `tids` that Python knows
};

PythonStacks ReadPythonStacks(pid_t pid, std::span<const pid_t> tids);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_PYTHON_STACK_H_
