#include "collector/stacks/python_runtime.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "collector/process/proc_reader.h"
#include "collector/process/process_memory.h"

namespace gordian::collector {
namespace {

constexpr const char* kSymbols[] = {"_PyRuntime", "Py_Version", "PyCode_Type"};
constexpr uint64_t kMostSymbols = 1u << 20;

// The symbols above by their address in the file, and the file's segments.
class InterpreterFile {
 public:
  // Returns false for a file that is no regular ELF file or lacks _PyRuntime.
  bool Open(const std::string& path) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (fd_ < 0 || fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      return false;
    }
    elf_version(EV_CURRENT);
    elf_ = elf_begin(fd_, ELF_C_READ_MMAP, nullptr);
    if (elf_ == nullptr || elf_kind(elf_) != ELF_K_ELF || gelf_getclass(elf_) != ELFCLASS64) {
      return false;
    }
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr;
         section = elf_nextscn(elf_, section)) {
      ReadSymbols(section);
    }
    return found_.contains(kSymbols[0]);
  }
  ~InterpreterFile() {
    if (elf_ != nullptr) {
      elf_end(elf_);
    }
    if (fd_ >= 0) {
      close(fd_);
    }
  }

  // Returns 0 if there is no such symbol.
  uint64_t Value(const char* symbol) const {
    const auto found = found_.find(symbol);
    return found == found_.end() ? 0 : found->second;
  }

  // The difference between addresses in `mapping` and in this file; nullopt if it maps another
  // file.
  std::optional<uint64_t> BiasOf(const ExecutableMapping& mapping) const {
    size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) {
      return std::nullopt;
    }
    for (size_t i = 0; i < count; ++i) {
      GElf_Phdr header;
      if (gelf_getphdr(elf_, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD &&
          mapping.file_offset >= header.p_offset - Lead(header) &&
          mapping.file_offset < header.p_offset + header.p_filesz && (header.p_flags & PF_X) != 0) {
        return mapping.start - (header.p_vaddr - header.p_offset + mapping.file_offset);
      }
    }
    return std::nullopt;
  }

 private:
  // The kernel maps whole pages of its own size: 4, 16 or 64 KiB.
  static uint64_t Lead(const GElf_Phdr& header) {
    return header.p_offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }

  void ReadSymbols(Elf_Scn* section) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0 ||
        (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB)) {
      return;
    }
    Elf_Data* const data = elf_getdata(section, nullptr);
    const uint64_t count = std::min<uint64_t>(header.sh_size / header.sh_entsize, kMostSymbols);
    for (uint64_t i = 0; data != nullptr && i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr ||
          symbol.st_shndx == SHN_UNDEF) {
        continue;
      }
      const char* const name = elf_strptr(elf_, header.sh_link, symbol.st_name);
      for (const char* wanted : kSymbols) {
        if (name != nullptr && strcmp(name, wanted) == 0) {
          found_[wanted] = symbol.st_value;
        }
      }
    }
  }

  int fd_ = -1;
  Elf* elf_ = nullptr;
  std::map<std::string_view, uint64_t> found_;
};

bool CalledPython(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libpython3") || name.starts_with("python3");
}

bool MayHoldPython(const ExecutableMapping& mapping, const std::string& executable) {
  const std::string name = mapping.path.substr(mapping.path.rfind('/') + 1);
  return mapping.path == executable || name.starts_with("libpython");
}

}  // namespace

std::optional<PythonRuntime> FindPython(pid_t pid) {
  const std::string executable = ReadExecutable(pid);
  std::vector<std::string> looked_at;
  std::optional<PythonRuntime> without_symbol;
  for (const ExecutableMapping& mapping : ReadMaps(pid)) {
    if (!MayHoldPython(mapping, executable) ||
        std::find(looked_at.begin(), looked_at.end(), mapping.path) != looked_at.end()) {
      continue;
    }
    looked_at.push_back(mapping.path);
    InterpreterFile file;
    // Tries the process's own view of the files first: it may live in a container.
    InterpreterFile outside;
    const InterpreterFile* used = nullptr;
    if (file.Open("/proc/" + std::to_string(pid) + "/root" + mapping.path)) {
      used = &file;
    } else if (outside.Open(mapping.path)) {
      used = &outside;
    }
    if (used == nullptr) {
      if (CalledPython(mapping.path)) {
        without_symbol = PythonRuntime{.module = mapping.path};
      }
      continue;
    }
    const std::optional<uint64_t> bias = used->BiasOf(mapping);
    if (!bias) {
      continue;
    }
    const auto address = [&](const char* symbol) {
      const uint64_t value = used->Value(symbol);
      return value == 0 ? 0 : value + *bias;
    };
    PythonRuntime out{.module = mapping.path,
                      .runtime = address("_PyRuntime"),
                      .version = 0,
                      .code_type = address("PyCode_Type")};
    ProcessMemory memory(pid);
    if (const uint64_t version = address("Py_Version"); version != 0) {
      out.version = memory.Get<uint64_t>(version).value_or(0);
    }
    return out;
  }
  return without_symbol;
}

std::string PythonVersionText(uint64_t version) {
  if (version == 0) {
    return "older than 3.11";
  }
  return std::to_string(version >> 24 & 0xff) + "." + std::to_string(version >> 16 & 0xff) + "." +
         std::to_string(version >> 8 & 0xff);
}

}  // namespace gordian::collector
