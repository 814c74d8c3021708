#include "common/owned_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string_view>
#include <utility>

namespace gordian {
namespace {

// Above the numbers that children are started with.
int Raised(int fd) {
  if (fd < 0 || fd >= 10) return fd;
  const int raised = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  const int error = errno == EINVAL ? EMFILE : errno;  // `ulimit -n` is below 10
  close(fd);
  errno = error;
  return raised;
}

std::string Leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int kMostTemporaries = 100;

bool Same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// 0, or an errno.
int WriteTo(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written > 0) {
      contents.remove_prefix(static_cast<size_t>(written));
    } else if (written == 0) {
      return ENOSPC;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Calls make(NAME) with names that no file of the folder should have, until one of them was made. -1
// and errno if none was. A link or a file that waits under one of the names is passed over.
int MakeTemporary(const std::string& name, std::string* temporary,
                  const std::function<int(const char*)>& make) {
  int made = -1;
  for (int number = 0; made < 0 && number < kMostTemporaries; ++number) {
    *temporary = name + ".tmp." + std::to_string(getpid());
    if (number > 0) *temporary += "." + std::to_string(number);
    made = make(temporary->c_str());
    if (made < 0 && errno != EEXIST) break;
  }
  return made;
}

// Lets `fill` write a new file, which then takes the name, and returns its descriptor; -1 and errno.
// The temporary file lies in the same folder, since renameat() does not cross file systems; O_EXCL
// makes it ours alone.
int Replace(int folder, const std::string& name, mode_t mode, const std::function<int(int)>& fill) {
  std::string temporary;
  const int fd = MakeTemporary(name, &temporary, [&](const char* path) {
    return openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  });
  if (fd < 0) return -1;
  int error = fill(fd);
  if (error == 0 && renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) error = errno;
  if (error == 0) return fd;
  unlinkat(folder, temporary.c_str(), 0);
  close(fd);
  errno = error;
  return -1;
}

// The same, for a file that is whole then. 0, or an errno.
int ReplaceWhole(int folder, const std::string& name, mode_t mode,
                 const std::function<int(int)>& fill) {
  const int fd = Replace(folder, name, mode, [&](int to) {
    const int error = fill(to);
    if (error != 0) return error;
    // Quota errors appear when a descriptor is closed; the other one stays open.
    const int copy = fcntl(to, F_DUPFD_CLOEXEC, 10);
    return copy >= 0 && close(copy) != 0 ? errno : 0;
  });
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  // A descriptor of its own: a duplicate would share the position.
  const int fd = openat(folder, ".", kFolder);
  DIR* const entries = fd >= 0 ? fdopendir(fd) : nullptr;
  if (entries == nullptr) {
    if (fd >= 0) close(fd);
    return names;
  }
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(entries);
  return names;
}

// 0, or the first errno.
int Empty(int folder, dev_t device) {
  int error = 0;
  for (const std::string& name : NamesIn(folder)) {
    if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    int failed = errno;
    const int inner = openat(folder, name.c_str(), kFolder | O_NOFOLLOW);
    struct stat info {};
    if (inner >= 0 && fstat(inner, &info) == 0 && info.st_dev == device) {
      failed = Empty(inner, device);
      if (failed == 0 && unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0) failed = errno;
    }
    if (inner >= 0) close(inner);
    if (error == 0) error = failed;
  }
  return error;
}

}  // namespace

StatusOr<OwnedFolder> OwnedFolder::Make(const std::string& base, const std::string& prefix) {
  std::string path = base + "/" + prefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {  // mode 0700
    return Status::FromErrno(errno, "cannot make a folder in " + base);
  }
  StatusOr<OwnedFolder> made = Open(path);
  if (!made.ok()) rmdir(path.c_str());  // too few descriptors, say
  return made;
}

StatusOr<OwnedFolder> OwnedFolder::Open(const std::string& path) {
  return OpenWith(path, kFolder | O_NOFOLLOW);
}

StatusOr<OwnedFolder> OwnedFolder::Adopt(const std::string& path) {
  return OpenWith(path, kFolder);
}

StatusOr<OwnedFolder> OwnedFolder::OpenWith(const std::string& path, int flags) {
  const size_t slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // O_PATH: names are looked up in a folder that may be entered, even if it may not be read.
  const int parent = Raised(open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent < 0) return Status::FromErrno(errno, "cannot open the folder " + above);
  const std::string leaf = Leaf(path);
  const char* const name = leaf.empty() ? "." : leaf.c_str();
  int fd = Raised(openat(parent, name, flags));
  if (fd < 0 && errno == EACCES) fd = Raised(openat(parent, name, flags | O_PATH));  // see above
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

std::vector<std::string> OwnedFolder::Names() const { return NamesIn(fd_); }

int OwnedFolder::OpenFile(const std::string& name, int flags, mode_t mode) const {
  return openat(fd_, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

int OwnedFolder::OpenOwn(const std::string& name, int flags, mode_t mode) const {
  // O_NONBLOCK: a pipe of that name must not block.
  const int fd = OpenFile(name, O_WRONLY | O_CREAT | O_NONBLOCK | flags, mode);
  if (fd < 0) return -1;
  struct stat info {};
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && (!S_ISREG(info.st_mode) || info.st_nlink != 1 || info.st_uid != geteuid())) {
    error = EPERM;
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

int OwnedFolder::Append(const std::string& name, mode_t mode) const {
  return OpenOwn(name, O_APPEND, mode);
}

int OwnedFolder::Overwrite(const std::string& name, mode_t mode) const {
  const int fd = OpenOwn(name, 0, mode);  // no O_TRUNC: the file is looked at first
  if (fd < 0 || ftruncate(fd, 0) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int OwnedFolder::Renew(const std::string& name, mode_t mode) const {
  return Replace(fd_, name, mode, [](int) { return 0; });
}

Status OwnedFolder::ReplaceFile(const std::string& name, std::string_view contents,
                                mode_t mode) const {
  const int error =
      ReplaceWhole(fd_, name, mode, [contents](int to) { return WriteTo(to, contents); });
  return error == 0 ? Status::Ok() : Status::FromErrno(error, "cannot write " + path_ + "/" + name);
}

Status OwnedFolder::CopyFile(const std::string& from, const std::string& to) const {
  const std::string what = "cannot copy " + path_ + "/" + from + " to " + to;
  const int source = OpenFile(from, O_RDONLY);
  if (source < 0) return Status::FromErrno(errno, what);
  const int error = ReplaceWhole(fd_, to, kFileMode, [source](int target) {
    std::vector<char> block(256u << 10);
    while (true) {
      const ssize_t got = read(source, block.data(), block.size());
      if (got == 0) return 0;
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno;
      const int failed = WriteTo(target, {block.data(), static_cast<size_t>(got)});
      if (failed != 0) return failed;
    }
  });
  close(source);
  return error == 0 ? Status::Ok() : Status::FromErrno(error, what);
}

Status OwnedFolder::PointLink(const std::string& name, const std::string& target) const {
  const std::string what = "cannot make the link " + path_ + "/" + name;
  std::string fresh;
  if (MakeTemporary(name, &fresh,
                    [&](const char* path) { return symlinkat(target.c_str(), fd_, path); }) != 0) {
    return Status::FromErrno(errno, what);
  }
  const auto put = [&](unsigned int flags) {
    return renameat2(fd_, fresh.c_str(), fd_, name.c_str(), flags) == 0 ? 0 : errno;
  };
  const auto is_link = [&](const std::string& of) {
    struct stat info {};
    return fstatat(fd_, of.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  };
  int error = put(RENAME_NOREPLACE);
  if (error == EINVAL) {  // the file system knows no such flags
    const bool there = faccessat(fd_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    error = there && !is_link(name) ? EEXIST : put(0);
  } else if (error == EEXIST && is_link(name)) {
    error = put(RENAME_EXCHANGE);
    if (error == 0 && !is_link(fresh)) {  // a file took the name meanwhile: it gets it back
      (void)put(RENAME_EXCHANGE);
      error = EEXIST;
    }
  }
  if (is_link(fresh)) unlinkat(fd_, fresh.c_str(), 0);
  return error == 0 ? Status::Ok() : Status::FromErrno(error, what);
}

StatusOr<OwnedFolder> OwnedFolder::MakeFolder(const std::string& name, mode_t mode) const {
  if (mkdirat(fd_, name.c_str(), mode) != 0 && errno != EEXIST) {
    return Status::FromErrno(errno, "cannot make " + path_ + "/" + name);
  }
  return OpenFolder(name);
}

StatusOr<OwnedFolder> OwnedFolder::OpenFolder(const std::string& name) const {
  std::string path = path_ + "/" + name;
  const int fd = Raised(openat(fd_, name.c_str(), kFolder | O_NOFOLLOW));
  const int parent = fd < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 10);
  if (fd < 0 || parent < 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return Status::FromErrno(error, "cannot open the folder " + path);
  }
  return OwnedFolder(std::move(path), fd, parent);
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
  if (!Same(ours, named)) {
    return Status::InvalidArgument(what + ": another file or folder has taken its place");
  }
  if (unlinkat(parent_, leaf.c_str(), AT_REMOVEDIR) != 0) return Status::FromErrno(errno, what);
  return Status::Ok();
}

Status OwnedFolder::RemoveTree() const {
  struct stat info {};
  const int error = fstat(fd_, &info) == 0 ? Empty(fd_, info.st_dev) : errno;
  if (error != 0) return Status::FromErrno(error, "cannot empty the folder " + path_);
  return Remove();
}

Status ReplaceFile(const std::string& path, std::string_view contents, mode_t mode) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + (slash == 0));
  const StatusOr<OwnedFolder> held = OwnedFolder::Adopt(folder);
  if (!held.ok())
    return Status(held.status().code(), "cannot write " + path + ": " + held.status().message());
  return held->ReplaceFile(Leaf(path), contents, mode);
}

}  // namespace gordian
