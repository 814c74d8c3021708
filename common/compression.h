// Compresses blocks of bytes to single zstd frames that state their content's size.
#ifndef GORDIAN_COMMON_COMPRESSION_H_
#define GORDIAN_COMMON_COMPRESSION_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian {

// Appends the frame to *out. Error: zstd has no memory; *out is then unchanged.
Status Compress(std::string_view contents, std::string* out);

// Accepts any bytes: *out never exceeds `most` bytes. Returns false, with the reason in *why, for a
// bad frame.
bool Decompress(std::string_view frame, size_t most, std::vector<char>* out, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_COMPRESSION_H_
