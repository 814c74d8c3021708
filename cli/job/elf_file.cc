#include "cli/job/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gordian::cli {
namespace {

// The file claims its offsets and sizes; libelf and these checks keep reads inside the file.
void ReadDynamic(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, ElfSummary* out) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) {
    return;
  }
  const size_t count = header.sh_size / header.sh_entsize;
  for (size_t i = 0; i < count; ++i) {
    GElf_Dyn entry;
    if (gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr || entry.d_tag == DT_NULL) {
      return;
    }
    if (entry.d_tag != DT_NEEDED && entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH &&
        entry.d_tag != DT_SONAME) {
      continue;
    }
    const char* text = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
    if (text == nullptr) {
      continue;
    }
    switch (entry.d_tag) {
      case DT_NEEDED:
        out->needed.emplace_back(text);
        break;
      case DT_RPATH:
        out->rpath = text;
        break;
      case DT_RUNPATH:
        out->runpath = text;
        break;
      default:
        out->soname = text;
    }
  }
}

// Calls `take(symbol, name)` for each readable symbol of the table; name may be null.
template <typename Take>
void ForEachSymbol(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, const Take& take) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) {
    return;
  }
  const size_t count = header.sh_size / header.sh_entsize;
  for (size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) {
      return;
    }
    take(symbol, elf_strptr(elf, header.sh_link, symbol.st_name));
  }
}

void ReadSymbols(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                 const std::vector<std::string>& look_for, ElfSummary* out) {
  ForEachSymbol(elf, section, header, [&](const GElf_Sym& symbol, const char* name) {
    const bool undefined = symbol.st_shndx == SHN_UNDEF;
    if (!undefined && GELF_ST_TYPE(symbol.st_info) != STT_FUNC) {
      return;
    }
    std::vector<std::string>& names = undefined ? out->undefined : out->defined;
    if (name != nullptr && std::find(look_for.begin(), look_for.end(), name) != look_for.end() &&
        std::find(names.begin(), names.end(), name) == names.end()) {
      names.emplace_back(name);
    }
  });
}

void ReadExports(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                 std::vector<std::string>* out) {
  ForEachSymbol(elf, section, header, [&](const GElf_Sym& symbol, const char* name) {
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
        GELF_ST_BIND(symbol.st_info) != STB_LOCAL && name != nullptr) {
      out->emplace_back(name);
    }
  });
}

// An open file that libelf reads; closes both.
class ElfFile {
 public:
  static StatusOr<ElfFile> Open(const std::string& path) {
    elf_version(EV_CURRENT);
    ElfFile file;
    file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd_ < 0) {
      return Status::FromErrno(errno, "cannot open " + path);
    }
    file.elf_ = elf_begin(file.fd_, ELF_C_READ, nullptr);
    if (file.elf_ == nullptr || elf_kind(file.elf_) != ELF_K_ELF) {
      return Status::InvalidArgument(path + " is no ELF file");
    }
    return file;
  }
  ElfFile(ElfFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), elf_(std::exchange(other.elf_, nullptr)) {}
  ElfFile& operator=(ElfFile&&) = delete;
  ~ElfFile() {
    if (elf_ != nullptr) {
      elf_end(elf_);
    }
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  int fd() const { return fd_; }
  Elf* elf() const { return elf_; }

 private:
  ElfFile() = default;
  int fd_ = -1;
  Elf* elf_ = nullptr;
};

}  // namespace

StatusOr<std::vector<std::string>> ExportedFunctions(const std::string& path) {
  const StatusOr<ElfFile> file = ElfFile::Open(path);
  if (!file.ok()) {
    return file.status();
  }
  std::vector<std::string> out;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(file->elf(), section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_DYNSYM) {
      ReadExports(file->elf(), section, header, &out);
    }
  }
  return out;
}

StatusOr<ElfSummary> ReadElf(const std::string& path, const std::vector<std::string>& look_for) {
  const StatusOr<ElfFile> file = ElfFile::Open(path);
  if (!file.ok()) {
    return file.status();
  }
  const int fd = file->fd();
  Elf* elf = file->elf();
  ElfSummary out;
  size_t headers = 0;
  elf_getphdrnum(elf, &headers);
  for (size_t i = 0; i < headers; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) != nullptr && header.p_type == PT_INTERP &&
        header.p_filesz > 1 && header.p_filesz < 4096) {
      std::string text(header.p_filesz, '\0');
      if (pread(fd, text.data(), text.size(), static_cast<off_t>(header.p_offset)) ==
          static_cast<ssize_t>(text.size())) {
        out.interpreter = text.c_str();  // up to the NUL
      }
    }
  }
  size_t names = 0;
  const bool named = elf_getshdrstrndx(elf, &names) == 0;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) {
      continue;
    }
    const char* name = named ? elf_strptr(elf, names, header.sh_name) : nullptr;
    out.has_device_code |= name != nullptr && strcmp(name, ".nvFatBinSegment") == 0;
    if (header.sh_type == SHT_DYNAMIC) {
      ReadDynamic(elf, section, header, &out);
    } else if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) {
      out.has_symbols |= header.sh_type == SHT_SYMTAB;
      if (!look_for.empty()) {
        ReadSymbols(elf, section, header, look_for, &out);
      }
    }
  }
  return out;
}

}  // namespace gordian::cli
