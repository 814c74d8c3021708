#include "analyzer/fleet/job_folders.h"

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "common/owned_folder.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kLastNumber = 1'000'000'000;

// N of a folder NAME.N; 0 for another name.
uint32_t NumberOf(const std::string& folder, const std::string& prefix) {
  if (!folder.starts_with(prefix)) return 0;
  uint32_t number = 0;
  const char* const end = folder.data() + folder.size();
  const auto [at, error] = std::from_chars(folder.data() + prefix.size(), end, number);
  return error == std::errc() && at == end && number < kLastNumber ? number : 0;
}

}  // namespace

std::string FolderName(const std::string& job) {
  std::string name = job.substr(0, 100);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  // A name that begins with '-' would be an option of whatever command it is passed to.
  if (name.empty() || name.front() == '.' || name.front() == '-') name = "job" + name;
  return name;
}

std::string LeafOf(const std::string& folder) { return folder.substr(folder.rfind('/') + 1); }

Status ListFolders(const std::string& dir, std::vector<std::string>* folders) {
  const size_t before = folders->size();
  std::error_code error;
  fs::directory_iterator item(dir, error);
  // A range-based loop would throw on errors in the middle.
  while (!error && item != fs::directory_iterator()) {
    std::error_code unknown;  // an entry vanished, or is not readable
    if (item->is_directory(unknown)) folders->push_back(item->path().string());
    item.increment(error);
  }
  std::sort(folders->begin() + static_cast<ptrdiff_t>(before), folders->end());
  if (!error) return Status::Ok();
  return Status::FromErrno(error.value(), "cannot read the folder " + dir);
}

StatusOr<std::string> MakeJobFolder(const OwnedFolder& dir, const std::string& job) {
  const std::string base = FolderName(job);
  if (mkdirat(dir.fd(), base.c_str(), kFolderMode) == 0) return base;
  uint32_t number = 1;
  if (errno == EEXIST) {
    // If the listing fails, the folders still exist: mkdirat below finds them one by one.
    for (const std::string& name : dir.Names())
      number = std::max(number, NumberOf(name, base + "."));
    errno = EEXIST;
  }
  while (errno == EEXIST && ++number <= kLastNumber) {
    std::string name = base + "." + std::to_string(number);
    if (mkdirat(dir.fd(), name.c_str(), kFolderMode) == 0) return name;
  }
  return Status::FromErrno(errno, "cannot make " + dir.path() + "/" + base);
}

}  // namespace gordian::analyzer
