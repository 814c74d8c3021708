// A folder that this program made, held by descriptor, so that what it deletes lies in that very
// folder whatever its path has come to mean: a link or another folder put in its place is left
// alone. Names are of files right in the folder and are never followed if they are links.
#ifndef GORDIAN_COMMON_OWNED_FOLDER_H_
#define GORDIAN_COMMON_OWNED_FOLDER_H_

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/status.h"

namespace gordian {

// Movable, not copyable; the destructor closes the descriptors and removes nothing. Thread
// compatible.
class OwnedFolder {
 public:
  // Makes <base>/<prefix>XXXXXX, mode 0700.
  static StatusOr<OwnedFolder> Make(const std::string& base, const std::string& prefix);
  // Opens a folder that is there. Error: the last part of `path` is a link or no folder.
  static StatusOr<OwnedFolder> Open(const std::string& path);

  OwnedFolder(OwnedFolder&& other) noexcept;
  OwnedFolder& operator=(OwnedFolder&& other) noexcept;
  ~OwnedFolder();

  const std::string& path() const { return path_; }  // as it was made; for people and children
  int fd() const { return fd_; }
  // All that it holds, ascending: close-on-exec, 10 or above.
  std::array<int, 2> Descriptors() const {
    return {std::min(fd_, parent_), std::max(fd_, parent_)};
  }

  std::vector<std::string> Names() const;
  // As openat(2), with O_NOFOLLOW and O_CLOEXEC; -1 and errno.
  int OpenFile(const std::string& name, int flags, mode_t mode = 0) const;
  // 0, or an errno.
  int RemoveFile(const std::string& name) const;
  // Removes the folder itself. Error: it is not empty, or its path leads elsewhere by now.
  Status Remove() const;

 private:
  OwnedFolder(std::string path, int fd, int parent);

  std::string path_;
  int fd_ = -1;
  int parent_ = -1;  // the folder that it lies in
};

}  // namespace gordian

#endif  // GORDIAN_COMMON_OWNED_FOLDER_H_
