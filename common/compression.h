// Blocks of bytes as single zstd frames that say how large their contents are.
#ifndef GORDIAN_COMMON_COMPRESSION_H_
#define GORDIAN_COMMON_COMPRESSION_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian {

// Appends the frame to *out. Error: zstd has no memory; *out is as it was.
Status Compress(std::string_view contents, std::string* out);

// From anybody: *out never becomes larger than `most`. False: *why says what is wrong with the
// frame.
bool Decompress(std::string_view frame, size_t most, std::vector<char>* out, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_COMPRESSION_H_
