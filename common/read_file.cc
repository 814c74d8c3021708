#include "common/read_file.h"

#include <errno.h>

#include <fstream>
#include <iterator>

namespace gordian {

StatusOr<std::string> ReadWholeFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status::FromErrno(errno, "cannot open " + path);
  }
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) {
    return Status::FromErrno(errno, "cannot read " + path);
  }
  return text;
}

}  // namespace gordian
