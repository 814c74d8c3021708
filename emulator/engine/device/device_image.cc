#include "emulator/engine/device/device_image.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace gordian::emu {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr unsigned char kEntryBit = 0x10;    // in st_other: a kernel, not a device function
constexpr unsigned char kManagedBit = 0x04;  // in st_other of a variable
constexpr uint16_t kCubin = 2;               // kind of a fatbin's entry
constexpr uint16_t kEmPtx = 1;
constexpr uint64_t kCompressed = 0xa000;  // flags of an entry

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  void* more;
};

struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of the entries
};

struct FatbinEntry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;
  unsigned char unused[24];
  uint64_t flags;
};

// Bounds every read below: offsets are the image's own claims.
class View {
 public:
  View(const void* data, size_t bytes) : data_(static_cast<const char*>(data)), bytes_(bytes) {}
  template <typename T>
  bool Read(uint64_t offset, T* value) const {
    if (offset > bytes_ || sizeof(T) > bytes_ - offset) return false;
    memcpy(value, data_ + offset, sizeof(T));
    return true;
  }
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  std::string Text(uint64_t offset) const {
    if (offset >= bytes_) return "";
    return {data_ + offset, strnlen(data_ + offset, bytes_ - offset)};
  }
  const char* at(uint64_t offset) const { return data_ + offset; }

 private:
  const char* data_;
  size_t bytes_;
};

// Attributes of a kernel: one byte of format, one of name, two of value or size.
void ReadParameters(const View& view, const Elf64_Shdr& section, ImageKernel* kernel) {
  constexpr unsigned char kSized = 4;
  constexpr unsigned char kParameter = 0x17;
  for (uint64_t at = section.sh_offset; at + 4 <= section.sh_offset + section.sh_size;) {
    unsigned char format = 0;
    unsigned char name = 0;
    uint16_t size = 0;
    if (!view.Read(at, &format) || !view.Read(at + 1, &name) || !view.Read(at + 2, &size)) return;
    struct {
      uint32_t index;
      uint16_t ordinal;
      uint16_t offset;
      uint32_t bits;
    } value;
    if (format == kSized && name == kParameter && view.Read(at + 4, &value) &&
        value.ordinal < 4096) {
      if (kernel->parameters.size() <= value.ordinal) kernel->parameters.resize(value.ordinal + 1);
      kernel->parameters[value.ordinal] = {value.offset, value.bits >> 18};
    }
    at += 4 + (format == kSized ? size : 0);
  }
}

bool ParseCubin(const View& view, DeviceImage* image) {
  Elf64_Ehdr header;
  if (!view.Read(0, &header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!view.Read(header.e_shoff + i * sizeof(Elf64_Shdr), &sections[i])) return false;
  }
  const auto name_of = [&](const Elf64_Shdr& section) {
    if (header.e_shstrndx >= sections.size()) return std::string();
    return view.Text(sections[header.e_shstrndx].sh_offset + section.sh_name);
  };
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      if (!view.Read(section.sh_offset + i * sizeof(symbol), &symbol)) break;
      const std::string name = view.Text(sections[section.sh_link].sh_offset + symbol.st_name);
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC && (symbol.st_other & kEntryBit) != 0) image->kernels[name];
      if (type != STT_OBJECT || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_shndx >= sections.size()) {
        continue;
      }
      const Elf64_Shdr& home = sections[symbol.st_shndx];
      ImageVariable& variable = image->variables[name];
      variable.bytes = symbol.st_size;
      variable.managed = (symbol.st_other & kManagedBit) != 0;
      const uint64_t offset = home.sh_offset + symbol.st_value;
      if (home.sh_type != SHT_NOBITS && view.Contains(offset, symbol.st_size)) {
        variable.initial.assign(view.at(offset), symbol.st_size);
      }
    }
  }
  constexpr char kInfo[] = ".nv.info.";
  for (const Elf64_Shdr& section : sections) {
    const std::string name = name_of(section);
    if (name.compare(0, sizeof(kInfo) - 1, kInfo) != 0) continue;
    const auto at = image->kernels.find(name.substr(sizeof(kInfo) - 1));
    if (at != image->kernels.end()) ReadParameters(view, section, &at->second);
  }
  return true;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$';
}

// Reads names of kernels only; the sizes of variables need an assembler.
bool ParsePtx(const std::string& text, DeviceImage* image) {
  if (text.find(".version") == std::string::npos) return false;
  constexpr char kEntry[] = ".entry";
  for (size_t at = text.find(kEntry); at != std::string::npos; at = text.find(kEntry, at + 1)) {
    size_t begin = at + sizeof(kEntry) - 1;
    while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
    size_t end = begin;
    while (end < text.size() && IsNameCharacter(text[end])) ++end;
    if (end > begin) image->kernels[text.substr(begin, end - begin)];
  }
  return true;
}

bool ParseFatbin(const void* data, DeviceImage* image) {
  FatbinHeader header;
  memcpy(&header, data, sizeof(header));
  const View view(data, header.header_bytes + header.bytes);
  bool read = false;
  bool skipped = false;
  for (uint64_t at = header.header_bytes; view.Contains(at, sizeof(FatbinEntry));) {
    FatbinEntry entry;
    view.Read(at, &entry);
    if (!view.Contains(at + entry.header_bytes, entry.bytes) || entry.header_bytes == 0) break;
    const char* const content = view.at(at + entry.header_bytes);
    if ((entry.flags & kCompressed) != 0) {
      skipped = true;
    } else if (entry.kind == kCubin) {
      read |= ParseCubin(View(content, entry.bytes), image);
    } else if (entry.kind == kEmPtx) {
      read |= ParsePtx(std::string(content, strnlen(content, entry.bytes)), image);
    }
    at += entry.header_bytes + entry.bytes;
  }
  // A fatbin's entries for different devices have the same names: one readable entry suffices.
  image->opaque |= skipped && !read;
  return read || skipped;
}

}  // namespace

bool ParseDeviceImage(const void* data, size_t bytes, DeviceImage* image) {
  if (data == nullptr) return false;
  uint32_t magic = 0;
  if (bytes != 0 && bytes < sizeof(FatbinHeader)) return false;
  memcpy(&magic, data, sizeof(magic));
  if (magic == kWrapperMagic) {
    Wrapper wrapper;
    memcpy(&wrapper, data, sizeof(wrapper));
    return ParseDeviceImage(wrapper.data, 0, image);
  }
  if (magic == kFatbinMagic) {
    FatbinHeader header;
    memcpy(&header, data, sizeof(header));
    if (bytes != 0 && header.header_bytes + header.bytes > bytes) return false;
    return ParseFatbin(data, image);
  }
  if (memcmp(&magic, ELFMAG, SELFMAG) == 0) {
    if (bytes == 0) {
      // Section headers come last, except for program headers.
      Elf64_Ehdr header;
      memcpy(&header, data, sizeof(header));
      bytes = std::max(header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize,
                       header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize);
    }
    return ParseCubin(View(data, bytes), image);
  }
  const char* const text = static_cast<const char*>(data);
  return ParsePtx(bytes == 0 ? std::string(text) : std::string(text, strnlen(text, bytes)), image);
}

}  // namespace gordian::emu
