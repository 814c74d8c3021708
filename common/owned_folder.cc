#include "common/owned_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace gordian {
namespace {

// Above the numbers that children are started with.
int Raised(int fd) {
  if (fd < 0 || fd >= 10) return fd;
  const int raised = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  const int error = errno;
  close(fd);
  errno = error;
  return raised;
}

std::string Leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

StatusOr<OwnedFolder> OwnedFolder::Make(const std::string& base, const std::string& prefix) {
  std::string path = base + "/" + prefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {  // mode 0700
    return Status::FromErrno(errno, "cannot make a folder in " + base);
  }
  return Open(path);
}

StatusOr<OwnedFolder> OwnedFolder::Open(const std::string& path) {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const size_t slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int parent = Raised(open(above.c_str(), kFolder));
  if (parent < 0) return Status::FromErrno(errno, "cannot open the folder " + above);
  const int fd = Raised(openat(parent, Leaf(path).c_str(), kFolder | O_NOFOLLOW));
  if (fd < 0) {
    const int error = errno;
    close(parent);
    return Status::FromErrno(error, "cannot open the folder " + path);
  }
  return OwnedFolder(path, fd, parent);
}

OwnedFolder::OwnedFolder(std::string path, int fd, int parent)
    : path_(std::move(path)), fd_(fd), parent_(parent) {}

OwnedFolder::OwnedFolder(OwnedFolder&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      parent_(std::exchange(other.parent_, -1)) {}

OwnedFolder& OwnedFolder::operator=(OwnedFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(parent_, other.parent_);
  return *this;
}

OwnedFolder::~OwnedFolder() {
  if (fd_ >= 0) close(fd_);
  if (parent_ >= 0) close(parent_);
}

std::vector<std::string> OwnedFolder::Names() const {
  std::vector<std::string> names;
  // A descriptor of its own: a duplicate would share the position.
  const int fd = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = fd >= 0 ? fdopendir(fd) : nullptr;
  if (folder == nullptr) {
    if (fd >= 0) close(fd);
    return names;
  }
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(folder);
  return names;
}

int OwnedFolder::OpenFile(const std::string& name, int flags, mode_t mode) const {
  return openat(fd_, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

int OwnedFolder::RemoveFile(const std::string& name) const {
  return unlinkat(fd_, name.c_str(), 0) == 0 ? 0 : errno;
}

Status OwnedFolder::Remove() const {
  const std::string what = "cannot remove the folder " + path_;
  const std::string leaf = Leaf(path_);
  struct stat ours {
  }, named{};
  if (fstat(fd_, &ours) != 0 || fstatat(parent_, leaf.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
    return Status::FromErrno(errno, what);
  }
  if (ours.st_dev != named.st_dev || ours.st_ino != named.st_ino) {
    return Status::InvalidArgument(what + ": another file or folder has taken its place");
  }
  if (unlinkat(parent_, leaf.c_str(), AT_REMOVEDIR) != 0) return Status::FromErrno(errno, what);
  return Status::Ok();
}

}  // namespace gordian
