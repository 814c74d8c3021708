#include "common/utf8.h"

#include <cstdint>
#include <cstring>

namespace gordian {

std::string TextOf(const char* field, size_t bytes) {
  return CleanUtf8(std::string(field, strnlen(field, bytes)));
}

std::string CleanUtf8(std::string text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = byte(i);
    size_t length = 1;
    uint32_t low = 0x80,
             high = 0xBF;  // bounds of the second byte: no overlong forms, no surrogates
    bool valid = true;
    if (first < 0x80) {
      ++i;
      continue;
    } else if (first >= 0xC2 && first <= 0xDF) {
      length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      length = 3;
      low = first == 0xE0 ? 0xA0 : 0x80;
      high = first == 0xED ? 0x9F : 0xBF;
    } else if (first >= 0xF0 && first <= 0xF4) {
      length = 4;
      low = first == 0xF0 ? 0x90 : 0x80;
      high = first == 0xF4 ? 0x8F : 0xBF;
    } else {
      valid = false;
    }
    if (valid && i + length <= text.size()) {
      valid = byte(i + 1) >= low && byte(i + 1) <= high;
      for (size_t k = 2; valid && k < length; ++k) {
        valid = byte(i + k) >= 0x80 && byte(i + k) <= 0xBF;
      }
    } else {
      valid = false;
    }
    if (valid) {
      i += length;
    } else {
      text[i++] = '?';
    }
  }
  return text;
}

namespace {

// How many bytes the control character at the beginning of the text has; 0: it is none.
size_t ControlBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  // U+0080 to U+009F: a terminal takes U+009B for the beginning of an escape.
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return 2;
  // U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069: marks of direction. U+2028 and
  // U+2029 end a line.
  if (byte(0) == 0xd8 && byte(1) == 0x9c) return 2;
  if (byte(0) != 0xe2) return 0;
  const bool mark = (byte(1) == 0x80 && (byte(2) == 0x8e || byte(2) == 0x8f ||
                                         (byte(2) >= 0xa8 && byte(2) <= 0xae))) ||
                    (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
  return mark ? 3 : 0;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t control = ControlBytes(text);
    out += control > 0 ? ' ' : text[0];
    text.remove_prefix(control > 0 ? control : 1);
  }
  return out;
}

}  // namespace gordian
