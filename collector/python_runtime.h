// Finds the Python interpreter of a process: which version, and where its state is.
#ifndef GORDIAN_COLLECTOR_PYTHON_RUNTIME_H_
#define GORDIAN_COLLECTOR_PYTHON_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gordian::collector {

struct PythonRuntime {
  std::string module;      // path of the file that holds the interpreter
  uint64_t runtime = 0;    // address of _PyRuntime; 0: the file is called Python, and does not say
  uint64_t version = 0;    // as Py_Version has it; 0: before 3.11, which does not say
  uint64_t code_type = 0;  // address of PyCode_Type; 0: not known
};

// Looks into the executable and what is called libpython. nullopt: there is none there.
// Reads ELF files and the process's memory; stops nothing.
std::optional<PythonRuntime> FindPython(pid_t pid);

// "3.12.1", "older than 3.11".
std::string PythonVersionText(uint64_t version);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PYTHON_RUNTIME_H_
