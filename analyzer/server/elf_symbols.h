// One ELF file on disk and the debug information that belongs to it.
#ifndef GORDIAN_ANALYZER_SERVER_ELF_SYMBOLS_H_
#define GORDIAN_ANALYZER_SERVER_ELF_SYMBOLS_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gordian::server {

// Not thread-safe.
class ElfSymbols {
 public:
  // Null when the file is not there, not a regular file, not ELF, or has another build id than
  // `build_id` (hexadecimal; empty: not compared).
  static std::unique_ptr<ElfSymbols> Open(const std::string& path, const std::string& build_id);
  ~ElfSymbols();
  ElfSymbols(const ElfSymbols&) = delete;
  ElfSymbols& operator=(const ElfSymbols&) = delete;

  // From an offset in the file to the address that the file's own tables use. False: no loaded
  // segment holds that offset.
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
  std::string FunctionFromDebugInfo(uint64_t biased) const;

  Dwfl* dwfl_;
  Dwfl_Module* module_;
  uint64_t bias_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_ELF_SYMBOLS_H_
