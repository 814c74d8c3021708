// The session directory of `gordian run`: claimed, described by its manifest, or done without.
#ifndef GORDIAN_CLI_SESSION_H_
#define GORDIAN_CLI_SESSION_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::cli {

inline constexpr char kStatusSocket[] = "gordian.sock";  // in a session, while its job runs

class Session {
 public:
  // Makes and claims `wanted`, or gordian-<app>-<UTC> in the working directory (with the link
  // `latest`) when that is empty. Never fails: note() is one line for a person when things are not
  // as asked for, and dir() is empty when nothing can be written at all. A folder that holds a
  // session already is left as it is; this one goes to the next free <wanted>.N.
  static Session Open(const std::string& wanted, const std::string& program);

  const std::string& dir() const { return dir_; }  // as people typed it; empty: no session
  const std::string& note() const { return note_; }
  std::string path(std::string_view name) const { return dir_ + "/" + std::string(name); }
  std::string absolute_dir() const;

  nlohmann::ordered_json& manifest() { return manifest_; }

  // Replaces manifest.json atomically. A disk that is full is named once; the old one stays.
  Status WriteManifest();

 private:
  std::string dir_;
  std::string note_;
  nlohmann::ordered_json manifest_;
};

// The folder's manifest.json. Errors name the file.
StatusOr<nlohmann::ordered_json> ReadManifest(const std::string& session_dir);

// "train" of "/opt/x/train", with only characters that suit a file name.
std::string AppName(const std::string& program);

// NAME=value of those that matter to a job's behaviour: NCCL_*, CUDA_*, GORDIAN_*. Sorted.
std::vector<std::string> RelevantEnvironment();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SESSION_H_
