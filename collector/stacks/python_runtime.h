// Finds the Python interpreter of a process: its version, and where its state is.
#ifndef GORDIAN_COLLECTOR_STACKS_PYTHON_RUNTIME_H_
#define GORDIAN_COLLECTOR_STACKS_PYTHON_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gordian::collector {

struct PythonRuntime {
  std::string module;      // path of the file that holds the interpreter
  uint64_t runtime = 0;    // address of _PyRuntime; 0: looks like Python but has none
  uint64_t version = 0;    // as in Py_Version; 0: before 3.11, which has no such symbol
  uint64_t code_type = 0;  // address of PyCode_Type; 0: not known
};

// Looks into the executable and any libpython; nullopt if there is no interpreter. Reads ELF files
// and the process's memory, and stops nothing.
std::optional<PythonRuntime> FindPython(pid_t pid);

// "3.12.1", "older than 3.11".
std::string PythonVersionText(uint64_t version);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_PYTHON_RUNTIME_H_
