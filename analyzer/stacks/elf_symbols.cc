#include "analyzer/stacks/elf_symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "analyzer/stacks/function_name.h"

namespace gordian::analyzer {
namespace {

// Looks for debug information beside the file and in the system's folders only. The standard search
// may ask a debuginfod server for minutes, while a verdict waits.
int FindLocalDebugInfo(Dwfl_Module* module, void** user, const char* name, Dwarf_Addr base,
                       const char* file, const char* link, GElf_Word crc, char** found) {
  if (getenv("DEBUGINFOD_URLS") != nullptr) {
    return dwfl_build_id_find_debuginfo(module, user, name, base, file, link, crc, found);
  }
  return dwfl_standard_find_debuginfo(module, user, name, base, file, link, crc, found);
}

const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = FindLocalDebugInfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = nullptr,
};

std::string BuildIdOf(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t count = dwelf_elf_gnu_build_id(elf, &bytes);
  std::string text;
  for (ssize_t i = 0; i < count; ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const unsigned byte = static_cast<const unsigned char*>(bytes)[i];
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

const char* LinkageName(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  if (const char* name =
          dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))) {
    return name;
  }
  return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute));
}

// The compile unit of an address. clang writes no .debug_aranges, by which alone elfutils before 0.191
// finds it: then each unit is asked.
Dwarf_Die* UnitOf(Dwfl_Module* module, Dwarf_Addr biased, Dwarf_Addr* bias) {
  if (Dwarf_Die* const unit = dwfl_module_addrdie(module, biased, bias)) return unit;
  Dwarf_Die* unit = nullptr;
  while ((unit = dwfl_module_nextcu(module, unit, bias)) != nullptr) {
    if (dwarf_haspc(unit, biased - *bias) == 1) return unit;
  }
  return nullptr;
}

std::string FunctionFromDebugInfo(Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address, &scopes);
  std::string name;
  for (int i = 0; i < count && name.empty(); ++i) {  // innermost first
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) continue;
    if (const char* linkage = LinkageName(&scopes[i])) {
      name = ReadableFunctionName(linkage);
    } else if (tag == DW_TAG_inlined_subroutine) {
      if (const char* plain = dwarf_diename(&scopes[i])) name = plain;
    } else {
      break;  // the symbol table has the full name of a function that was not inlined
    }
  }
  free(scopes);
  return name;
}

}  // namespace

std::unique_ptr<ElfSymbols> ElfSymbols::Open(const std::string& path, const std::string& build_id,
                                             bool proven) {
  if (proven && build_id.empty()) return nullptr;
  // O_NONBLOCK: the path comes from another process and may name a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    close(fd);
    return nullptr;
  }
  Dwfl* dwfl = dwfl_begin(&kCallbacks);
  if (dwfl == nullptr) {
    close(fd);
    return nullptr;
  }
  dwfl_report_begin(dwfl);
  Dwfl_Module* module = dwfl_report_offline(dwfl, path.c_str(), path.c_str(), fd);
  if (module == nullptr) close(fd);  // otherwise libdwfl owns it
  dwfl_report_end(dwfl, nullptr, nullptr);
  if (module == nullptr) {
    dwfl_end(dwfl);
    return nullptr;
  }
  std::unique_ptr<ElfSymbols> symbols(new ElfSymbols(dwfl, module));
  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module, &bias);
  if (elf == nullptr) return nullptr;
  if (!build_id.empty()) {
    const std::string have = BuildIdOf(elf);
    if (have.empty() ? proven : strcasecmp(have.c_str(), build_id.c_str()) != 0) return nullptr;
  }
  symbols->bias_ = bias;
  size_t headers = 0;
  if (elf_getphdrnum(elf, &headers) != 0) return nullptr;
  for (size_t i = 0; i < headers; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type != PT_LOAD) continue;
    symbols->segments_.push_back(
        {.offset = header.p_offset, .address = header.p_vaddr, .bytes = header.p_filesz});
  }
  return symbols;
}

ElfSymbols::ElfSymbols(Dwfl* dwfl, Dwfl_Module* module) : dwfl_(dwfl), module_(module) {}
ElfSymbols::~ElfSymbols() { dwfl_end(dwfl_); }

bool ElfSymbols::AddressOfOffset(uint64_t file_offset, uint64_t* address) const {
  for (const Segment& segment : segments_) {
    if (file_offset >= segment.offset && file_offset - segment.offset < segment.bytes) {
      *address = file_offset - segment.offset + segment.address;
      return true;
    }
  }
  return false;
}

ElfSymbols::Place ElfSymbols::Find(uint64_t address) const {
  const uint64_t biased = address + bias_;
  Place place;
  Dwarf_Addr bias = 0;
  if (Dwarf_Die* const unit = UnitOf(module_, biased, &bias)) {
    int number = 0;
    Dwarf_Line* const line = dwarf_getsrc_die(unit, biased - bias);
    const char* const file = line != nullptr ? dwarf_linesrc(line, nullptr, nullptr) : nullptr;
    if (file != nullptr && dwarf_lineno(line, &number) == 0 && number > 0) {
      place.file = file;
      place.line = number;
    }
    place.function = FunctionFromDebugInfo(unit, biased - bias);
  }
  if (place.function.empty()) {
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char* name =
        dwfl_module_addrinfo(module_, biased, &offset, &symbol, nullptr, nullptr, nullptr);
    // A symbol that ends before the address is only near it.
    if (name != nullptr && (symbol.st_size == 0 || offset < symbol.st_size)) {
      place.function = ReadableFunctionName(name);
    }
  }
  return place;
}

}  // namespace gordian::analyzer
