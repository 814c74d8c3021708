#include "common/status.h"

#include <cerrno>
#include <cstring>

namespace gordian {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kPermissionDenied:
      return "permission denied";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadline:
      return "took too long";
    case StatusCode::kDataLoss:
      return "damaged data";
    case StatusCode::kNewerVersion:
      return "newer version";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status Status::FromErrno(int error, std::string_view what) {
  std::string message(what);
  message += ": ";
  message += std::strerror(error);
  switch (error) {
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
      return NotFound(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(std::move(message));
    case EEXIST:
      return AlreadyExists(std::move(message));
    case EINVAL:
    case ENAMETOOLONG:
      return InvalidArgument(std::move(message));
    case ETIMEDOUT:
      return Deadline(std::move(message));
    default:
      return Unavailable(std::move(message));
  }
}

std::string Status::ToString() const {
  if (ok()) {
    return "ok";
  }
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

}  // namespace gordian
