#include "cli/web/access_token.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "cli/output.h"

namespace gordian::cli {
namespace {

constexpr size_t kTokenBytes = 32;

StatusOr<std::string> Read(const OwnedFolder& folder, int fd) {
  const std::string path = folder.path() + "/" + kTokenFile;
  struct stat about {};
  std::array<char, 2 * kTokenBytes + 2> text;
  const bool known = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  const ssize_t n = known ? read(fd, text.data(), text.size()) : -1;
  close(fd);
  if (!known || n < 0) return Status::Unavailable("cannot read " + path);
  if (about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
    return Status::PermissionDenied(
        path + " is no secret: it belongs to another user, or others may open it; remove it, and "
               "gordian makes a new one");
  }
  std::string token(text.data(), static_cast<size_t>(n));
  while (token.ends_with('\n')) token.pop_back();
  if (token.size() < kTokenBytes) {
    return Status::DataLoss(path + " holds no token; remove it, and gordian makes a new one");
  }
  return token;
}

}  // namespace

StatusOr<std::string> AccessToken(const OwnedFolder& folder) {
  const std::string path = folder.path() + "/" + kTokenFile;
  int fd = folder.OpenFile(kTokenFile, O_RDONLY | O_NONBLOCK);
  if (fd >= 0) return Read(folder, fd);
  if (errno != ENOENT) return Status::FromErrno(errno, "cannot read " + path);
  std::array<unsigned char, kTokenBytes> random;
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return Status::FromErrno(errno, "cannot make a token");
  }
  std::string token;
  for (const unsigned char byte : random) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  fd = folder.OpenFile(kTokenFile, O_WRONLY | O_CREAT | O_EXCL, kFileMode);
  if (fd < 0) return Status::FromErrno(errno, "cannot write " + path);
  const bool written = WriteAll(fd, token + "\n");
  const int error = errno;
  close(fd);
  if (!written) {
    (void)folder.RemoveFile(kTokenFile);
    return Status::FromErrno(error, "cannot write " + path);
  }
  return token;
}

std::string PageAddress(const std::string& listen, int port, const std::string& token) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0" || host == "[::]") {
    char name[256] = {};
    host = gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
  }
  return "http://" + host + ":" + std::to_string(port) + "/" +
         (token.empty() ? "" : "#token=" + token);
}

}  // namespace gordian::cli
