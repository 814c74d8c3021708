// A folder that this program made, held by descriptor, so that what it deletes lies in that very
// folder whatever its path has come to mean: a link or another folder put in its place is left
// alone. Names are of files right in the folder and are never followed if they are links.
#ifndef GORDIAN_COMMON_OWNED_FOLDER_H_
#define GORDIAN_COMMON_OWNED_FOLDER_H_

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian {

// Sessions hold command lines, environments and source paths: they are their user's alone.
inline constexpr mode_t kFileMode = 0600;
inline constexpr mode_t kFolderMode = 0700;

// Movable, not copyable; the destructor closes the descriptors and removes nothing. Thread
// compatible.
class OwnedFolder {
 public:
  // Makes <base>/<prefix>XXXXXX, mode 0700.
  static StatusOr<OwnedFolder> Make(const std::string& base, const std::string& prefix);
  // Opens a folder that is there. Error: the last part of `path` is a link or no folder.
  static StatusOr<OwnedFolder> Open(const std::string& path);
  // Opens a folder that the user named: if its last part is a link, it is followed this once.
  static StatusOr<OwnedFolder> Adopt(const std::string& path);

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
  // Opens a file to write it from its beginning, and makes it if it is not there. -1 and errno: it
  // is a link (ELOOP), no regular file, another user's, or has a second name; it is then unchanged.
  int Overwrite(const std::string& name, mode_t mode = kFileMode) const;
  // The same, to write behind what the file holds.
  int Append(const std::string& name, mode_t mode = kFileMode) const;
  // A new, empty file in place of the one of that name, to be written bit by bit; a link is replaced,
  // and what it leads to stays as it was. -1 and errno.
  int Renew(const std::string& name, mode_t mode = kFileMode) const;
  // Replaces the file atomically: a reader sees all of the old or all of the new contents. A crash
  // of the machine may lose it (no fsync). After an error no temporary file remains. A link of that
  // name is replaced, and what it leads to stays as it was.
  Status ReplaceFile(const std::string& name, std::string_view contents,
                     mode_t mode = kFileMode) const;
  // Copies a file of this folder to another name in it, as ReplaceFile does.
  Status CopyFile(const std::string& from, const std::string& to) const;
  // Makes a symbolic link, or points the one of that name elsewhere, atomically. Error: a file or
  // folder has that name; it stays as it was.
  Status PointLink(const std::string& name, const std::string& target) const;
  // Makes the folder, or opens it if it is there. Error: it is a link or no folder.
  StatusOr<OwnedFolder> MakeFolder(const std::string& name, mode_t mode = kFolderMode) const;
  // Error: there is none, or it is a link or no folder.
  StatusOr<OwnedFolder> OpenFolder(const std::string& name) const;
  // 0, or an errno.
  int RemoveFile(const std::string& name) const;
  // Removes the folder itself. Error: it is not empty, or its path leads elsewhere by now.
  Status Remove() const;
  // Removes all that the folder holds, never through a link or onto another file system, and then
  // the folder itself, as Remove does.
  Status RemoveTree() const;

 private:
  OwnedFolder(std::string path, int fd, int parent);
  static StatusOr<OwnedFolder> OpenWith(const std::string& path, int flags);
  int OpenOwn(const std::string& name, int flags, mode_t mode) const;

  std::string path_;
  int fd_ = -1;
  int parent_ = -1;  // the folder that it lies in
};

// OwnedFolder::ReplaceFile for one file that is written once; the folder is found by its path.
Status ReplaceFile(const std::string& path, std::string_view contents, mode_t mode = kFileMode);

}  // namespace gordian

#endif  // GORDIAN_COMMON_OWNED_FOLDER_H_
