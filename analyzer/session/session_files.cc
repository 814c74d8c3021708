#include "analyzer/session/session_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

namespace gordian::analyzer {

Status ReplaceFile(const std::string& path, std::string_view contents) {
  // In the same folder, since rename() does not cross file systems; with the pid, since another run
  // with the same session must not write into this file.
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Status::FromErrno(errno, "cannot write " + path);
  int error = 0;
  while (!contents.empty() && error == 0) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written > 0) {
      contents.remove_prefix(static_cast<size_t>(written));
    } else if (written == 0) {
      error = ENOSPC;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (close(fd) != 0 && error == 0) error = errno;  // quota errors appear here
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return Status::Ok();
  unlink(temporary.c_str());
  return Status::FromErrno(error, "cannot write " + path);
}

}  // namespace gordian::analyzer
