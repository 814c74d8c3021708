#include "common/shell_quote.h"

#include <string.h>

#include <algorithm>

#include "common/utf8.h"

namespace gordian {

std::string ShellQuote(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("_-./:=,+@%", c) != nullptr;
  });
  if (plain) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShownQuote(std::string_view word) {
  const std::string text(word);
  if (Printable(text) == text && CleanUtf8(text) == text) return ShellQuote(word);
  std::string quoted = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      quoted += {'\\', static_cast<char>('0' + (byte >> 6)),
                 static_cast<char>('0' + (byte >> 3) % 8), static_cast<char>('0' + byte % 8)};
    } else {
      if (c == '\'' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace gordian
