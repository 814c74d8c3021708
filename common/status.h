// What a function that can fail returns. Programs that run outside of other people's processes use
// this and no exceptions; exceptions of libraries are caught where the library is called.
#ifndef GORDIAN_COMMON_STATUS_H_
#define GORDIAN_COMMON_STATUS_H_

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gordian {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,   // the caller, or the person, asked for something that makes no sense
  kNotFound,          // no such file, process, session
  kPermissionDenied,  // it is there, but not for us
  kAlreadyExists,
  kUnavailable,   // may work later: peer gone, disk full
  kDeadline,      // took longer than was allowed
  kDataLoss,      // bytes that cannot be what they claim to be
  kNewerVersion,  // written by a newer gordian than this one
  kInternal,      // ours: a bug
};

// Short lower-case name, as in "not found".
std::string_view StatusCodeName(StatusCode code);

// A code and one line for people that names the file or rank and what to try. Copyable;
// thread-compatible (like a string).
class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }
  static Status InvalidArgument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }
  static Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
  static Status PermissionDenied(std::string m) {
    return {StatusCode::kPermissionDenied, std::move(m)};
  }
  static Status AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, std::move(m)}; }
  static Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
  static Status Deadline(std::string m) { return {StatusCode::kDeadline, std::move(m)}; }
  static Status DataLoss(std::string m) { return {StatusCode::kDataLoss, std::move(m)}; }
  static Status NewerVersion(std::string m) { return {StatusCode::kNewerVersion, std::move(m)}; }
  static Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

  // Makes a status from errno: "cannot open /x: Permission denied", where `what` is "cannot open
  // /x".
  static Status FromErrno(int error, std::string_view what);

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "not found: no session in /x", or "ok".
  std::string ToString() const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value, or why there is none. value() of an error is a bug of the caller (asserted).
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT
  StatusOr(T value) : value_(std::move(value)) {}                                  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace gordian

#define GORDIAN_RETURN_IF_ERROR(expression)                                        \
  do {                                                                             \
    if (::gordian::Status status_of_macro = (expression); !status_of_macro.ok()) { \
      return status_of_macro;                                                      \
    }                                                                              \
  } while (false)

#endif  // GORDIAN_COMMON_STATUS_H_
