// Text from outside made valid UTF-8: protobuf and JSON refuse anything else. Any thread.
#ifndef GORDIAN_COMMON_UTF8_H_
#define GORDIAN_COMMON_UTF8_H_

#include <cstddef>
#include <string>

namespace gordian {

// Each byte that is no part of valid UTF-8 becomes '?'.
std::string CleanUtf8(std::string text);

// The same of a field of `bytes` bytes, whose text ends at its first NUL or with the field.
std::string TextOf(const char* field, size_t bytes);

}  // namespace gordian

#endif  // GORDIAN_COMMON_UTF8_H_
