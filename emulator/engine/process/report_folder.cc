#include "emulator/engine/process/report_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

namespace gordian::emu {

ReportFolder::ReportFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  folder_ = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  name_ = path.substr(slash + 1);
  there_ = stat(folder_.c_str(), &seen_) == 0;
}

int ReportFolder::Open() const {
  const int fd = open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct stat now {};
  if (fd < 0 || fstat(fd, &now) != 0) return fd;
  if (there_ && now.st_dev == seen_.st_dev && now.st_ino == seen_.st_ino) return fd;
  close(fd);
  errno = ESTALE;
  return -1;
}

int ReportFolder::Replace(const std::string& text) const {
  const int folder = Open();
  if (folder < 0) return errno;
  const std::string part = name_ + ".part";  // the name holds the process's number
  unlinkat(folder, part.c_str(), 0);
  const int fd =
      openat(folder, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0 && write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    error = EIO;
  }
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && renameat(folder, part.c_str(), folder, name_.c_str()) != 0) error = errno;
  if (error != 0 && fd >= 0) unlinkat(folder, part.c_str(), 0);
  close(folder);
  return error;
}

void ReportFolder::Remove() const {
  const int folder = Open();
  if (folder < 0) return;
  unlinkat(folder, name_.c_str(), 0);
  close(folder);
}

}  // namespace gordian::emu
