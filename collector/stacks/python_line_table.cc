#include "collector/stacks/python_line_table.h"

#include <climits>

namespace gordian::collector {
namespace {

// The first byte of an entry: 1, four bits of kind, three bits of length less one.
constexpr uint8_t kFirst = 0x80;
constexpr int kNoLocation = 15;
constexpr int kLong = 14;
constexpr int kNoColumns = 13;
constexpr int kOneLine = 10;  // to 12: so many lines further
constexpr int64_t kInstructionBytes = 2;

class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return at_ >= bytes_.size(); }
  bool broken() const { return broken_; }

  uint8_t Next() {
    if (empty()) {
      broken_ = true;
      return 0;
    }
    return bytes_[at_++];
  }
  void Skip(int count) {
    for (; count > 0; --count) {
      Next();
    }
  }
  // Six bits a byte, the lowest first; bit 6 says that another follows.
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 60; shift += 6) {
      const uint8_t byte = Next();
      value |= static_cast<uint64_t>(byte & 0x3f) << shift;
      if ((byte & 0x40) == 0) {
        return value;
      }
    }
    broken_ = true;
    return 0;
  }
  int64_t Signed() {
    const uint64_t value = Unsigned();
    const auto size = static_cast<int64_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }

 private:
  const std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool broken_ = false;
};

}  // namespace

int LineOfInstruction(std::span<const uint8_t> table, int first_line, int64_t offset) {
  if (offset < 0) {
    return first_line;
  }
  Bytes bytes(table);
  int64_t line = first_line;
  int64_t end = 0;
  while (!bytes.empty()) {
    const uint8_t first = bytes.Next();
    if ((first & kFirst) == 0) {
      return -1;
    }
    const int kind = (first >> 3) & 15;
    end += ((first & 7) + 1) * kInstructionBytes;
    if (kind == kLong) {
      line += bytes.Signed();
      bytes.Unsigned();
      bytes.Unsigned();
      bytes.Unsigned();
    } else if (kind == kNoColumns) {
      line += bytes.Signed();
    } else if (kind >= kOneLine && kind < kNoColumns) {
      line += kind - kOneLine;
      bytes.Skip(2);
    } else if (kind < kOneLine) {
      bytes.Skip(1);
    }
    if (bytes.broken() || line < 0 || line > INT_MAX) {
      return -1;
    }
    if (offset < end) {
      return kind == kNoLocation ? -1 : static_cast<int>(line);
    }
  }
  return -1;
}

}  // namespace gordian::collector
