#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/output.h"

namespace gordian::cli {
namespace {

// Opens what is no regular file, or standard output whatever that is. -1: a regular file, or
// nothing. Neither truncates nor creates.
int OpenDevice(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return -1;
  struct stat out {};
  const bool is_out =
      fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == info.st_dev && out.st_ino == info.st_ino;
  if (is_out) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  if (S_ISREG(info.st_mode)) return -1;
  const int fd = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (fd >= 0 && (fstat(fd, &info) != 0 || S_ISREG(info.st_mode))) {  // another one by now
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  if (const int device = OpenDevice(path); device >= 0) {
    return OutputFile(path, device, nullptr, "");
  }
  const std::string what = "cannot write " + path;
  const size_t slash = path.rfind('/');
  StatusOr<OwnedFolder> folder =
      OwnedFolder::Adopt(slash == std::string::npos ? "." : path.substr(0, slash + (slash == 0)));
  if (!folder.ok()) return Status(folder.status().code(), what + ": " + folder.status().message());
  const std::string name = path.substr(slash + 1);
  struct stat info {};
  if (fstatat(folder->fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISLNK(info.st_mode)) {
      return Status::InvalidArgument(what + ": it is a link; name the file that it leads to");
    }
    if (!S_ISREG(info.st_mode)) return Status::InvalidArgument(what + ": it is no file");
  }
  return OutputFile(path, -1, std::make_unique<OwnedFolder>(std::move(folder).value()), name);
}

OutputFile::OutputFile(std::string path, int device, std::unique_ptr<OwnedFolder> folder,
                       std::string name)
    : path_(std::move(path)), device_(device), folder_(std::move(folder)), name_(std::move(name)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      device_(std::exchange(other.device_, -1)),
      folder_(std::move(other.folder_)),
      name_(std::move(other.name_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  return *this;
}

OutputFile::~OutputFile() {
  if (device_ >= 0) close(device_);
}

Status OutputFile::Write(std::string_view text) const {
  if (device_ < 0) return folder_->ReplaceFile(name_, text, kOutputMode);
  return WriteAll(device_, text) ? Status::Ok() : Status::FromErrno(errno, "cannot write " + path_);
}

int OutputFile::Begin() const {
  return device_ < 0 ? folder_->Renew(name_, kOutputMode) : fcntl(device_, F_DUPFD_CLOEXEC, 10);
}

Status WriteOutput(const std::string& path, std::string_view text) {
  const StatusOr<OutputFile> file = OutputFile::Open(path);
  GORDIAN_RETURN_IF_ERROR(file.status());
  return file->Write(text);
}

StatusOr<OwnedFolder> OutputFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Status::FromErrno(error.value(), "cannot make " + path);
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return OwnedFolder::Adopt(folder);
}

}  // namespace gordian::cli
