// Who may do what at a `gordian serve`: one secret key in its folder, and a token of each role that
// is made from it. The server keeps no list: it makes the token again and compares.
//
//   viewer     sees all jobs: the page, /metrics, status, verdicts
//   admin      sees all jobs, and acknowledges incidents
//   collector  is a node of any job, and sees all jobs
//   job NAME   is a node of that job alone, and sees nothing but its verdict
//
// A token is role, '-' and the first 32 hexadecimal digits of HMAC-SHA256(key, role and job). To
// take all tokens back: remove the key's file and start the server again.
#ifndef GORDIAN_ANALYZER_ACCESS_ACCESS_KEY_H_
#define GORDIAN_ANALYZER_ACCESS_ACCESS_KEY_H_

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::access {

inline constexpr char kKeyFile[] = "access.key";

// Immutable; any thread.
class AccessKey {
 public:
  // Reads the key in the folder, or makes one, for the user alone. Errors: the file cannot be
  // written, is too short, is another user's, or others may open it.
  static StatusOr<AccessKey> Open(const OwnedFolder& folder);
  // The same of a key that is there: makes none. Error kNotFound: there is none.
  static StatusOr<AccessKey> Find(const OwnedFolder& folder);

  std::string ViewerToken() const;
  std::string AdminToken() const;
  std::string CollectorToken() const;
  std::string JobToken(std::string_view job) const;

  bool MayView(std::string_view token) const;
  bool MayChange(std::string_view token) const;
  bool MayWrite(std::string_view token, std::string_view job) const;

 private:
  explicit AccessKey(std::string key) : key_(std::move(key)) {}
  std::string Token(std::string_view role, std::string_view of) const;

  std::string key_;
};

// HMAC-SHA256 of the text, in hexadecimal digits.
std::string HmacSha256(std::string_view key, std::string_view text);

// Takes the same time for all texts of one length.
bool SameSecret(std::string_view given, std::string_view wanted);

// Counts the wrong tokens of each address, so that a peer that tries many is seen and turned away at
// little cost. A right token is never refused for them: others at that address may be at fault, and
// 128 bits are not found by trying. Thread-safe.
class WrongTokens {
 public:
  static constexpr int kMany = 10;

  // The address has shown a wrong one. How many that makes within about a minute.
  int Note(const std::string& address);

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::map<std::string, std::pair<int, Clock::time_point>> wrong_;
};

}  // namespace gordian::access

#endif  // GORDIAN_ANALYZER_ACCESS_ACCESS_KEY_H_
