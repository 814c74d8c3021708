#include "collector/rings/salvage.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "proto/ring/layout.h"

namespace gordian::collector {
namespace {

constexpr size_t kBlock = 64u << 10;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

int WriteBlock(int fd, const char* data, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(fd, data + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return n < 0 ? errno : ENOSPC;
    }
    done += static_cast<size_t>(n);
  }
  return 0;
}

// 0, or an errno. read(2), not a mapping: the file may be cut meanwhile.
int CopyBytes(int from, int to, uint64_t bytes) {
  static const std::vector<char> zeros(kBlock, 0);
  std::vector<char> block(kBlock);
  uint64_t at = 0;
  while (at < bytes) {
    const off_t data = lseek(from, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      break;  // only a hole is left
    }
    at = data > 0 ? std::max<uint64_t>(at, static_cast<uint64_t>(data)) : at;
    if (at >= bytes) {
      break;
    }
    const ssize_t n =
        pread(from, block.data(), std::min<uint64_t>(kBlock, bytes - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno;
    }
    if (n == 0) {
      bytes = at;  // cut
      break;
    }
    const auto got = static_cast<size_t>(n);
    // Reserved space that was never written is no hole, but it is zero.
    if (std::memcmp(block.data(), zeros.data(), got) != 0) {
      if (const int error = WriteBlock(to, block.data(), got, at); error != 0) {
        return error;
      }
    }
    at += got;
  }
  return ftruncate(to, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

}  // namespace

Status CopyRingFile(const OwnedFolder& from, const OwnedFolder& to, const std::string& name) {
  const std::string what =
      "cannot salvage the ring file " + from.path() + "/" + name + " to " + to.path();
  const Descriptor in(from.OpenFile(name, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (in.get() < 0 || fstat(in.get(), &info) != 0) {
    return Status::FromErrno(errno, what);
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::InvalidArgument(what + ": it is not a regular file");
  }
  const std::string partial = name + ".tmp";
  to.RemoveFile(partial);  // of a run that was killed while it copied
  const Descriptor out(to.OpenFile(partial, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (out.get() < 0) {
    return Status::FromErrno(errno, what);
  }
  int error = CopyBytes(in.get(), out.get(),
                        std::min(static_cast<uint64_t>(info.st_size), ring::kMaxFileBytes));
  if (error == 0 && renameat(to.fd(), partial.c_str(), to.fd(), name.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    to.RemoveFile(partial);
    return Status::FromErrno(error, what);
  }
  return Status::Ok();
}

RingKeeper::RingKeeper(const OwnedFolder* rings, const OwnedFolder* session) : rings_(rings) {
  if (session == nullptr) {
    return;
  }
  if (StatusOr<OwnedFolder> kept = session->MakeFolder("rings"); kept.ok()) {
    kept_ = std::move(kept).value();
  } else {
    spdlog::warn("ring files will not be kept: {}", kept.status().message());
  }
}

void RingKeeper::Link(const std::string& name) {
  if (!kept_) {
    return;
  }
  kept_->RemoveFile(name);
  if (symlinkat((rings_->path() + "/" + name).c_str(), kept_->fd(), name.c_str()) != 0) {
    spdlog::debug("cannot link {}/{}: {}", kept_->path(), name, std::strerror(errno));
  }
}

Status RingKeeper::Keep(const std::string& name) {
  Status status;
  if (kept_) {
    status = CopyRingFile(*rings_, *kept_, name);
    struct stat info {};
    if (!status.ok() && fstatat(kept_->fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(info.st_mode)) {
      kept_->RemoveFile(name);  // leads to what is removed next
    }
  }
  if (const int error = rings_->RemoveFile(name); error != 0 && error != ENOENT) {
    spdlog::warn("cannot remove {}/{}: {}", rings_->path(), name, std::strerror(error));
  }
  return status;
}

}  // namespace gordian::collector
