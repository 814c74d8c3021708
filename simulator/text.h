// Formats numbers.
#ifndef GORDIAN_SIMULATOR_TEXT_H_
#define GORDIAN_SIMULATOR_TEXT_H_

#include <charconv>
#include <cstdint>
#include <string>

namespace gordian::simulator {

// "1.48e-06": so many significant digits.
inline std::string Digits(double number, int digits = 3) {
  char text[48];
  const auto end =
      std::to_chars(text, text + sizeof(text), number, std::chars_format::general, digits).ptr;
  return {text, end};
}

// The shortest text that reads back as the same number.
inline std::string Exactly(double number) {
  char text[48];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

// Sixteen digits.
inline std::string Hex(uint64_t number) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof(text), number, 16).ptr;
  const std::string digits(text, end);
  return std::string(16 - digits.size(), '0') + digits;
}

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_TEXT_H_
