#include "common/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gordian {
namespace {

constexpr size_t kBlock = 256u << 10;

StatusOr<std::string> ReadFrom(int fd, const std::string& path, uint64_t most) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return Status::FromErrno(errno, "cannot read " + path);
  }
  if (S_ISDIR(info.st_mode)) {
    return Status::FromErrno(EISDIR, "cannot read " + path);
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::InvalidArgument("cannot read " + path + ": not a regular file");
  }
  const auto too_large = [&] {
    return Status::DataLoss("cannot read " + path + ": it has more than " +
                            std::to_string(most >> 20) + " MiB");
  };
  if (info.st_size > 0 && static_cast<uint64_t>(info.st_size) > most) return too_large();
  std::string text;  // its size may not be known, as below /proc, and it may grow
  while (true) {
    const size_t before = text.size();
    text.resize(before + kBlock);
    const ssize_t got = read(fd, text.data() + before, kBlock);
    const int error = errno;
    text.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && error == EINTR) {
      continue;
    }
    if (got < 0) {
      return Status::FromErrno(error, "cannot read " + path);
    }
    if (got == 0) {
      return text;
    }
    if (text.size() > most) return too_large();
  }
}

// Without O_NONBLOCK a pipe of that name would be waited for.
int OpenToRead(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

}  // namespace

std::string ReadBeginning(const std::string& path, size_t most) {
  const int fd = OpenToRead(path);
  struct stat info {};
  std::string bytes;
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    bytes.resize(most);
    const ssize_t got = read(fd, bytes.data(), most);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  if (fd >= 0) close(fd);
  return bytes;
}

StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most) {
  const int fd = OpenToRead(path);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot open " + path);
  }
  StatusOr<std::string> text = ReadFrom(fd, path, most);
  close(fd);
  return text;
}

}  // namespace gordian
