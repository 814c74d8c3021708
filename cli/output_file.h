// Files that a person names with -o and the like. They are found by their path once, and held by
// their folder from then on. A link of that name is never written through, unless it leads to a
// device or a pipe, as /dev/stdout does.
#ifndef GORDIAN_CLI_OUTPUT_FILE_H_
#define GORDIAN_CLI_OUTPUT_FILE_H_

#include <memory>
#include <string>
#include <string_view>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

// What other files of the user's get, less the umask.
inline constexpr mode_t kOutputMode = 0666;

// Movable, not copyable.
class OutputFile {
 public:
  // Makes no file yet. Errors: there is no such folder; the name is a folder's, or a link to a file.
  static StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  // Puts a new file with this text in place of the one of that name; writes it to a device or pipe.
  Status Write(std::string_view text) const;
  // A new, empty file in its place; else the device or pipe. The caller closes it. -1 and errno.
  int Begin() const;

 private:
  OutputFile(std::string path, int device, std::unique_ptr<OwnedFolder> folder, std::string name);

  std::string path_;
  int device_ = -1;  // or a pipe
  std::unique_ptr<OwnedFolder> folder_;
  std::string name_;
};

// OutputFile::Write for a file that is written once.
Status WriteOutput(const std::string& path, std::string_view text);

// The folder that a person named for what a verb writes; made, with its parents, if it is not there.
StatusOr<OwnedFolder> OutputFolder(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_OUTPUT_FILE_H_
