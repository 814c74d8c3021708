#include "analyzer/access/access_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <new>

#include "analyzer/access/key_file.h"

namespace gordian::access {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kTokenDigits = 32;
constexpr std::chrono::seconds kWindow(60);
constexpr size_t kMostAddresses = 4096;

std::string Hex(const unsigned char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

StatusOr<AccessKey> AccessKey::Open(const OwnedFolder& folder) {
  StatusOr<AccessKey> found = Find(folder);
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
  std::array<unsigned char, kKeyBytes> random;
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return Status::FromErrno(errno, "cannot make a key");
  }
  GORDIAN_RETURN_IF_ERROR(folder.ReplaceFile(kKeyFile, Hex(random.data(), random.size()) + "\n"));
  return Find(folder);
}

StatusOr<AccessKey> AccessKey::Find(const OwnedFolder& folder) {
  const std::string path = folder.path() + "/" + kKeyFile;
  const int fd = folder.OpenFile(kKeyFile, O_RDONLY | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return Status::NotFound("there is no " + path);
  StatusOr<std::string> key = ReadKeyFile({.fd = fd,
                                           .path = path,
                                           .least = 2 * kKeyBytes,
                                           .next = "remove it, and gordian makes a new one"});
  GORDIAN_RETURN_IF_ERROR(key.status());
  return AccessKey(std::move(key).value());
}

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &length) == nullptr) {
    throw std::bad_alloc();  // HMAC fails in no other way here
  }
  return Hex(digest.data(), length);
}

std::string AccessKey::Token(std::string_view role, std::string_view of) const {
  const std::string text = std::string(role) + '\0' + std::string(of);
  return std::string(role) + "-" + HmacSha256(key_, text).substr(0, kTokenDigits);
}

std::string AccessKey::ViewerToken() const { return Token("viewer", ""); }
std::string AccessKey::AdminToken() const { return Token("admin", ""); }
std::string AccessKey::CollectorToken() const { return Token("collector", ""); }
std::string AccessKey::JobToken(std::string_view job) const { return Token("job", job); }

bool AccessKey::MayView(std::string_view token) const {
  return SameSecret(token, ViewerToken()) || SameSecret(token, CollectorToken()) ||
         MayChange(token);
}

bool AccessKey::MayChange(std::string_view token) const { return SameSecret(token, AdminToken()); }

bool AccessKey::MayWrite(std::string_view token, std::string_view job) const {
  return SameSecret(token, JobToken(job)) || SameSecret(token, CollectorToken());
}

bool SameSecret(std::string_view given, std::string_view wanted) {
  unsigned different = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(c ^ wanted[i]);
  }
  return different == 0;
}

int WrongTokens::Note(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (wrong_.size() >= kMostAddresses) wrong_.clear();
  auto& [times, since] = wrong_[address];
  const Clock::time_point now = Clock::now();
  if (times == 0 || now - since > kWindow) {
    times = 0;
    since = now;
  }
  return ++times;
}

}  // namespace gordian::access
