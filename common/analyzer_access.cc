#include "common/analyzer_access.h"

#include <cstdint>
#include <utility>

#include "common/read_file.h"

namespace gordian {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;

Status Read(const std::string& path, std::string* text) {
  if (path.empty()) return Status::Ok();
  StatusOr<std::string> read = ReadWholeFile(path, kMostBytes);
  GORDIAN_RETURN_IF_ERROR(read.status());
  if (read->empty()) return Status::InvalidArgument(path + " is empty");
  *text = std::move(read).value();
  return Status::Ok();
}

}  // namespace

StatusOr<Access> ReadAccess(const AccessFiles& files) {
  if (files.tls_cert.empty() != files.tls_key.empty()) {
    return Status::InvalidArgument((files.tls_cert.empty() ? files.tls_key : files.tls_cert) +
                                   " is half of a certificate and its key: name both files");
  }
  if (!files.tls_cert.empty() && files.tls_ca.empty()) {
    return Status::InvalidArgument(files.tls_cert +
                                   " is shown over TLS alone: name the file with the server's "
                                   "certificate authority as well");
  }
  Access access;
  GORDIAN_RETURN_IF_ERROR(Read(files.token, &access.token));
  GORDIAN_RETURN_IF_ERROR(Read(files.tls_ca, &access.tls_ca));
  GORDIAN_RETURN_IF_ERROR(Read(files.tls_cert, &access.tls_cert));
  GORDIAN_RETURN_IF_ERROR(Read(files.tls_key, &access.tls_key));
  while (access.token.ends_with('\n') || access.token.ends_with('\r')) access.token.pop_back();
  // It travels in a header, which has one line of plain characters.
  for (const char c : access.token) {
    if (c <= ' ' || c > '~') {
      return Status::InvalidArgument(files.token +
                                     " holds no token: it is one word (gordian token)");
    }
  }
  return access;
}

}  // namespace gordian
