#include "analyzer/exporters/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

namespace gordian::exporters {
namespace {

constexpr size_t kPiece = 1u << 20;

// 0, or an errno.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

}  // namespace

Status WriteExported(int fd, std::string_view bytes) {
  const int error = WriteAll(fd, bytes);
  return error == 0 ? Status::Ok() : Status::FromErrno(error, "cannot write what was exported");
}

StatusOr<ScratchFile> ScratchFile::In(const std::string& folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // a file system that has no such files
    std::string path = folder + "/.gordian-export-XXXXXX";
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd < 0) return Status::FromErrno(errno, "cannot make a temporary file in " + folder);
  return ScratchFile(fd, folder);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      folder_(std::move(other.folder_)),
      pending_(std::move(other.pending_)),
      error_(other.error_) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(folder_, other.folder_);
  std::swap(pending_, other.pending_);
  std::swap(error_, other.error_);
  return *this;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) close(fd_);
}

void ScratchFile::Append(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= kPiece) Flush();
}

void ScratchFile::Flush() {
  if (error_ == 0) error_ = WriteAll(fd_, pending_);
  pending_.clear();
}

Status ScratchFile::Written() {
  if (!pending_.empty()) Flush();
  if (error_ == 0) return Status::Ok();
  return Status::FromErrno(error_, "cannot write a temporary file in " + folder_);
}

Status ScratchFile::Read(uint64_t at, void* into, size_t bytes) {
  GORDIAN_RETURN_IF_ERROR(Written());
  char* to = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, to, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Status::FromErrno(got < 0 ? errno : ENODATA,
                               "cannot read a temporary file in " + folder_);
    }
    to += got;
    at += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return Status::Ok();
}

Status ScratchFile::CopyTo(int fd) {
  GORDIAN_RETURN_IF_ERROR(Written());
  std::string piece(kPiece, '\0');
  for (off_t at = 0;;) {
    const ssize_t got = pread(fd_, piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "cannot read a temporary file in " + folder_);
    if (got == 0) return Status::Ok();
    GORDIAN_RETURN_IF_ERROR(WriteExported(fd, {piece.data(), static_cast<size_t>(got)}));
    at += got;
  }
}

}  // namespace gordian::exporters
