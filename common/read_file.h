// Reads a whole file as text.
#ifndef GORDIAN_COMMON_READ_FILE_H_
#define GORDIAN_COMMON_READ_FILE_H_

#include <string>

#include "common/status.h"

namespace gordian {

// For files that a person names and that fit into memory. The error names `path` and the reason.
StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace gordian

#endif  // GORDIAN_COMMON_READ_FILE_H_
