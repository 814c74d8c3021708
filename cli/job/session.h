// The session directory of `gordian run`: claims it and writes its manifest.
#ifndef GORDIAN_CLI_JOB_SESSION_H_
#define GORDIAN_CLI_JOB_SESSION_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

inline constexpr char kStatusSocket[] = "gordian.sock";  // in a session, while its job runs

class Session {
 public:
  // Makes and claims `wanted`, or gordian-<app>-<UTC> in the working directory (and the link
  // `latest`) when `wanted` is empty. Leaves an existing session alone and takes the next free
  // <wanted>.N. Never fails: note() explains any departure in one line, and dir() is empty when
  // gordian can write nowhere.
  static Session Open(const std::string& wanted, const std::string& program);

  const std::string& dir() const { return dir_; }  // as people typed it; empty: no session
  const std::string& note() const { return note_; }
  // The session of the same name before this one; empty: none.
  const std::string& before() const { return before_; }
  std::string absolute_dir() const;
  // That very folder, whatever its path leads to later; null: no session.
  const std::shared_ptr<const OwnedFolder>& folder() const { return folder_; }

  nlohmann::ordered_json& manifest() { return manifest_; }

  // Replaces manifest.json atomically. Reports a full disk once; the old file then stays.
  Status WriteManifest();

 private:
  std::string dir_;
  std::shared_ptr<const OwnedFolder> folder_;
  std::string note_;
  std::string before_;
  nlohmann::ordered_json manifest_;
};

// The folder's manifest.json. Errors name the file.
StatusOr<nlohmann::ordered_json> ReadManifest(const std::string& session_dir);

// "train" for "/opt/x/train", with only characters that suit a file name.
std::string AppName(const std::string& program);

// NAME=value of the variables that affect a job: NCCL_*, CUDA_*, GORDIAN_*. Sorted.
std::vector<std::string> RelevantEnvironment();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_SESSION_H_
