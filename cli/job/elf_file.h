// What an ELF file says about how it will be loaded and what it brings along.
#ifndef GORDIAN_CLI_JOB_ELF_FILE_H_
#define GORDIAN_CLI_JOB_ELF_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::cli {

struct ElfSummary {
  std::string interpreter;          // the loader; empty: static, or a library
  std::vector<std::string> needed;  // DT_NEEDED
  std::string rpath;                // DT_RPATH: comes before LD_LIBRARY_PATH
  std::string runpath;              // DT_RUNPATH: comes after it
  std::string soname;
  bool has_symbols = false;            // a .symtab: "not defined" then means something
  bool has_device_code = false;        // nvcc's section of kernels
  std::vector<std::string> defined;    // of the names asked for, those that it defines itself
  std::vector<std::string> undefined;  // and those that it takes from a library
};

// `look_for`: symbols to search for in .symtab and .dynsym. Errors: cannot be read, no ELF file.
StatusOr<ElfSummary> ReadElf(const std::string& path,
                             const std::vector<std::string>& look_for = {});

// The functions that a library offers to others, as its dynamic symbol table says. Errors as above.
StatusOr<std::vector<std::string>> ExportedFunctions(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_ELF_FILE_H_
