// Reads one ELF file on disk and its debug information.
#ifndef GORDIAN_ANALYZER_STACKS_ELF_SYMBOLS_H_
#define GORDIAN_ANALYZER_STACKS_ELF_SYMBOLS_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gordian::analyzer {

// Not thread-safe.
class ElfSymbols {
 public:
  // Returns null if the file is missing, not a regular file, not ELF, or has a build id other than
  // `build_id` (hexadecimal; empty: any). `proven`: only a file that has this very build id.
  static std::unique_ptr<ElfSymbols> Open(const std::string& path, const std::string& build_id,
                                          bool proven = false);
  ~ElfSymbols();
  ElfSymbols(const ElfSymbols&) = delete;
  ElfSymbols& operator=(const ElfSymbols&) = delete;

  // Converts an offset in the file to the address in the file's own tables. Returns false if no
  // loaded segment holds it.
  bool AddressOfOffset(uint64_t file_offset, uint64_t* address) const;

  struct Place {
    std::string function;  // as in CallSite
    std::string file;
    int line = 0;
  };
  Place Find(uint64_t address) const;

 private:
  struct Segment {
    uint64_t offset, address, bytes;
  };
  ElfSymbols(Dwfl* dwfl, Dwfl_Module* module);

  Dwfl* dwfl_;
  Dwfl_Module* module_;
  uint64_t bias_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_ELF_SYMBOLS_H_
