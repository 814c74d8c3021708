#include "analyzer/access/key_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gordian::access {
namespace {

constexpr size_t kMostKeyBytes = 4096;

}  // namespace

StatusOr<std::string> ReadKeyFile(const KeyFile& file) {
  const std::string what = "the key " + file.path;
  if (file.fd < 0) return Status::FromErrno(errno, "cannot read " + what);
  struct stat about {};
  std::string key(kMostKeyBytes + 2, '\0');  // with an end of line, and one more that is too many
  const bool regular = fstat(file.fd, &about) == 0 && S_ISREG(about.st_mode);
  const ssize_t n = regular ? read(file.fd, key.data(), key.size()) : -1;
  close(file.fd);
  if (n < 0) return Status::InvalidArgument("cannot read " + what + ": it is no regular file");
  // A file of root's is as good as one's own: root may read all.
  if ((about.st_mode & 077) != 0 || (about.st_uid != geteuid() && about.st_uid != 0)) {
    return Status::PermissionDenied(
        what + " is no secret: it is another user's, or others may open it; " + file.next);
  }
  key.resize(static_cast<size_t>(n));
  while (key.ends_with('\n') || key.ends_with('\r')) key.pop_back();
  if (key.size() < file.least || key.size() > kMostKeyBytes) {
    return Status::InvalidArgument(what + " must have " + std::to_string(file.least) + " to " +
                                   std::to_string(kMostKeyBytes) + " bytes; " + file.next);
  }
  return key;
}

}  // namespace gordian::access
