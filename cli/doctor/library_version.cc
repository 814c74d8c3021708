#include "cli/doctor/library_version.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <unistd.h>

namespace gordian::cli {
namespace {

// The version in a section of notes; empty: none of them is gordian's.
std::string VersionIn(Elf_Data* data) {
  GElf_Nhdr header;
  size_t name = 0, text = 0;
  for (size_t at = 0; (at = gelf_getnote(data, at, &header, &name, &text)) > 0;) {
    const char* const bytes = static_cast<const char*>(data->d_buf);
    if (header.n_namesz == sizeof "gordian" &&
        memcmp(bytes + name, "gordian", sizeof "gordian") == 0 && header.n_descsz > 0) {
      return std::string(bytes + text, strnlen(bytes + text, header.n_descsz));
    }
  }
  return "";
}

}  // namespace

std::string LibraryVersion(const std::string& path) {
  elf_version(EV_CURRENT);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  std::string version;
  if (Elf* const elf = elf_begin(fd, ELF_C_READ, nullptr); elf != nullptr) {
    Elf_Scn* section = nullptr;
    while (version.empty() && (section = elf_nextscn(elf, section)) != nullptr) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
      if (Elf_Data* const data = elf_getdata(section, nullptr)) version = VersionIn(data);
    }
    elf_end(elf);
  }
  close(fd);
  return version;
}

}  // namespace gordian::cli
