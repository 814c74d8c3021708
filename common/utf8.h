// Makes text from outside valid UTF-8, since protobuf and JSON refuse anything else, and harmless to
// a terminal. Any thread.
#ifndef GORDIAN_COMMON_UTF8_H_
#define GORDIAN_COMMON_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace gordian {

// Each byte that is no part of valid UTF-8 becomes '?'.
std::string CleanUtf8(std::string text);

// The same of a field of `bytes` bytes, whose text ends at its first NUL or with the field.
std::string TextOf(const char* field, size_t bytes);

// Replaces by spaces, in valid UTF-8 (CleanUtf8), control characters and those that turn the
// direction of text, by which a name can make a line read as another one. For what goes to a
// terminal or into a report: names and paths come from watched processes.
std::string Printable(std::string_view text);

}  // namespace gordian

#endif  // GORDIAN_COMMON_UTF8_H_
