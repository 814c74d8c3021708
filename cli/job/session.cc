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
#include "common/json_text.h"
#include "common/read_file.h"
#include "common/shell_quote.h"

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

// The process that creates manifest.json owns the session; of two at once, one fails. A folder that
// the user named may be a link; one that gordian named is its own.
Claim ClaimFolder(const std::string& dir, bool named, std::shared_ptr<const OwnedFolder>* claimed,
                  std::string* why) {
  std::error_code error;
  const fs::path above = fs::path(dir).parent_path();
  if (!above.empty()) fs::create_directories(above, error);
  if (!error && mkdir(dir.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    *why = error.message();
    return Claim::kUnusable;
  }
  StatusOr<OwnedFolder> folder = named ? OwnedFolder::Adopt(dir) : OwnedFolder::Open(dir);
  if (!folder.ok()) {
    *why = folder.status().message();
    return Claim::kUnusable;
  }
  for (const char* name : {"trace.gtrace", "verdict.json"}) {
    if (faccessat(folder->fd(), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
      return Claim::kTaken;
    }
  }
  const int fd = folder->OpenFile("manifest.json", O_WRONLY | O_CREAT | O_EXCL, kFileMode);
  if (fd < 0) {
    if (errno == EEXIST) {
      return Claim::kTaken;
    }
    *why = strerror(errno);
    return Claim::kUnusable;
  }
  close(fd);
  *claimed = std::make_shared<const OwnedFolder>(std::move(folder).value());
  return Claim::kOurs;
}

constexpr size_t kStampLength = 16;  // of UtcStamp

// Finds the latest of the other sessions in the working folder whose names begin as this one's, up to
// the stamp.
std::string LatestBefore(const std::string& dir, size_t up_to_stamp) {
  // "<stamp>" or "<stamp>.<number>"
  const auto place = [&](const std::string& name) {
    const std::string stamp = name.substr(up_to_stamp, kStampLength);
    const std::string rest = name.substr(up_to_stamp + stamp.size());
    const bool numbered = rest.size() > 1 && rest.size() < 6 && rest[0] == '.' &&
                          rest.find_first_not_of("0123456789", 1) == std::string::npos;
    const bool ours = stamp.size() == kStampLength && stamp[8] == 'T' && stamp.back() == 'Z' &&
                      (rest.empty() || numbered);
    return std::pair(ours ? stamp : "", numbered ? std::stoi(rest.substr(1)) : 1);
  };
  const auto own = place(dir);
  std::pair<std::string, int> latest;
  std::string found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(".", error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= up_to_stamp || name.compare(0, up_to_stamp, dir, 0, up_to_stamp) != 0)
      continue;
    const auto at = place(name);
    if (at.first.empty() || at >= own || at < latest) continue;
    latest = at;
    found = name;
  }
  return found;
}

// Not where a file or folder of the user's has that name.
void PointLatestAt(const std::string& dir) {
  if (const StatusOr<OwnedFolder> here = OwnedFolder::Open("."); here.ok()) {
    (void)here->PointLink("latest", dir);
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
    const Claim claim = ClaimFolder(dir, /*named=*/!by_default, &session.folder_, &why);
    if (claim == Claim::kTaken) {
      continue;
    }
    if (claim == Claim::kOurs) {
      session.dir_ = dir;
      session.before_ = by_default    ? LatestBefore(dir, base.size() - kStampLength)
                        : number == 1 ? ""
                        : number == 2 ? base
                                      : base + "." + std::to_string(number - 1);
      if (number > 1 && !by_default) {
        session.note_ = base + " already holds a session; this one goes to " + dir +
                        " (to see the old one: gordian explain " + ShownQuote(base) + ")";
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
  return folder_->ReplaceFile("manifest.json", text);
}

StatusOr<nlohmann::ordered_json> ReadManifest(const std::string& session_dir) {
  const std::string path = session_dir + "/manifest.json";
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return Status::NotFound("no session in " + session_dir + " (" + text.status().message() + ")");
  }
  auto json = ParseJson<nlohmann::ordered_json>(*text);
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
