// Reads secret keys from files.
#ifndef GORDIAN_ANALYZER_ACCESS_KEY_FILE_H_
#define GORDIAN_ANALYZER_ACCESS_KEY_FILE_H_

#include <cstddef>
#include <string>

#include "common/status.h"

namespace gordian::access {

struct KeyFile {
  int fd = -1;            // as open() gave it, with O_NONBLOCK: a pipe is not waited for
  std::string path;       // for errors
  size_t least = 0;       // bytes of the key
  const char* next = "";  // what to do about one that is no secret, or no key
};

// Closes the file. Returns the key, without the ends of lines behind it: 4096 bytes at most. Errors,
// also for an `fd` of -1 (by errno), name the file: it is no regular file, is another user's, may be
// opened by others, or is too short or too long.
StatusOr<std::string> ReadKeyFile(const KeyFile& file);

}  // namespace gordian::access

#endif  // GORDIAN_ANALYZER_ACCESS_KEY_FILE_H_
