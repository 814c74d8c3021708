// Compresses blocks of bytes to single zstd frames that state their content's size.
#ifndef GORDIAN_COMMON_COMPRESSION_H_
#define GORDIAN_COMMON_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian {

// Appends the frame to *out. Error: zstd has no memory; *out is then unchanged.
Status Compress(std::string_view contents, std::string* out);

// What the frame says that it holds; none: it is no frame of ours.
std::optional<uint64_t> ContentsOf(std::string_view frame);

// Adds bytes that readers skip, until there are `at_least`.
void Pad(uint64_t at_least, std::string* frame);

// Accepts any bytes: *out never exceeds `most` bytes. Returns false, with the reason in *why, for a
// bad frame.
bool Decompress(std::string_view frame, size_t most, std::vector<char>* out, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_COMPRESSION_H_
