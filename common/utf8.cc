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

}  // namespace gordian
