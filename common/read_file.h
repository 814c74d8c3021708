// Reads a whole file as text.
#ifndef GORDIAN_COMMON_READ_FILE_H_
#define GORDIAN_COMMON_READ_FILE_H_

#include <cstdint>
#include <string>

#include "common/budget.h"
#include "common/status.h"

namespace gordian {

// For files that a person names and that fit into memory. The error names `path` and the reason: it
// is no regular file (a pipe would be waited for), or has more than `most` bytes.
StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most = kMostFileBytes);

// Its first bytes, at most `most`; "" if it is no regular file or cannot be read.
std::string ReadBeginning(const std::string& path, size_t most);

}  // namespace gordian

#endif  // GORDIAN_COMMON_READ_FILE_H_
