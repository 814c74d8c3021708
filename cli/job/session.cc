#include "cli/job/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/output.h"
#include "common/read_file.h"

namespace gordian::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSessions = 1000;

std::string UtcStamp() {
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

enum class Claim { kOurs, kTaken, kUnusable };

// The process that creates manifest.json owns the session; of two at once, one fails.
Claim ClaimFolder(const std::string& dir, std::string* why) {
  std::error_code error;
  const fs::path above = fs::path(dir).parent_path();
  if (!above.empty()) fs::create_directories(above, error);
  if (!error && mkdir(dir.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error && !fs::is_directory(dir, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    *why = error.message();
    return Claim::kUnusable;
  }
  for (const char* name : {"trace.gtrace", "verdict.json"}) {
    if (fs::exists(dir + "/" + name, error)) {
      return Claim::kTaken;
    }
  }
  const std::string manifest = dir + "/manifest.json";
  const int fd = open(manifest.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  if (fd < 0) {
    if (errno == EEXIST) {
      return Claim::kTaken;
    }
    *why = strerror(errno);
    return Claim::kUnusable;
  }
  close(fd);
  return Claim::kOurs;
}

void PointLatestAt(const std::string& dir) {
  struct stat info {};
  if (lstat("latest", &info) == 0 && !S_ISLNK(info.st_mode)) {
    return;  // a file of the user's
  }
  const std::string fresh = ".latest." + std::to_string(getpid());
  if (symlink(dir.c_str(), fresh.c_str()) == 0 && rename(fresh.c_str(), "latest") != 0) {
    unlink(fresh.c_str());
  }
}

}  // namespace

std::string AppName(const std::string& program) {
  std::string name = program.substr(program.rfind('/') + 1);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) {
      c = '_';
    }
  }
  return name.empty() ? "job" : name.substr(0, 64);
}

Session Session::Open(const std::string& wanted, const std::string& program) {
  Session session;
  const bool by_default = wanted.empty();
  std::string base = by_default ? "gordian-" + AppName(program) + "-" + UtcStamp() : wanted;
  while (base.size() > 1 && base.back() == '/') {
    base.pop_back();
  }
  std::string why = "it holds too many sessions already";
  for (int number = 1; number < kMostSessions; ++number) {
    const std::string dir = number == 1 ? base : base + "." + std::to_string(number);
    const Claim claim = ClaimFolder(dir, &why);
    if (claim == Claim::kTaken) {
      continue;
    }
    if (claim == Claim::kOurs) {
      session.dir_ = dir;
      if (StatusOr<OwnedFolder> opened = OwnedFolder::Adopt(dir); opened.ok()) {
        session.folder_ = std::move(opened).value();
      }
      if (number > 1 && !by_default) {
        session.note_ = base + " already holds a session; this one goes to " + dir +
                        " (to see the old one: gordian explain " + ShellQuote(base) + ")";
      }
      if (by_default) {
        PointLatestAt(dir);
      }
      return session;
    }
    break;
  }
  session.note_ =
      "cannot write session " + base + " (" + why +
      "): gordian watches the job but keeps nothing; name another folder with --session DIR";
  return session;
}

std::string Session::absolute_dir() const {
  if (dir_.empty()) {
    return "";
  }
  std::error_code error;
  const fs::path path = fs::absolute(dir_, error);
  return error ? dir_ : path.lexically_normal().string();
}

Status Session::WriteManifest() {
  if (dir_.empty()) {
    return Status::Ok();
  }
  const std::string text =
      manifest_.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  return folder_ ? folder_->ReplaceFile("manifest.json", text)
                 : ReplaceFile(path("manifest.json"), text);
}

StatusOr<nlohmann::ordered_json> ReadManifest(const std::string& session_dir) {
  const std::string path = session_dir + "/manifest.json";
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return Status::NotFound("no session in " + session_dir + " (" + text.status().message() + ")");
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (!json.is_object()) {
    return Status::DataLoss(path + " is no manifest of a session");
  }
  return json;
}

std::vector<std::string> RelevantEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("NCCL_") || text.starts_with("CUDA_") || text.starts_with("GORDIAN_")) {
      out.emplace_back(text);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace gordian::cli
